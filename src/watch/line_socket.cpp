#include "watch/line_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

// A peer that has not read this much is not there any more, and no line is longer.
constexpr std::size_t kMostKept = std::size_t{16} << 20;

void make_ready(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // a command that is run when a checkpoint is complete must not hold it open
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_in address_of(const std::string& text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

int begin_to_connect(const std::string& text, std::uint16_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  if (descriptor < 0) return -1;
  make_ready(descriptor);
  const sockaddr_in address = address_of(text, port);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EINPROGRESS)
    return descriptor;
  close(descriptor);
  return -1;
}

bool is_connected(int descriptor) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

int milliseconds(double seconds) { return static_cast<int>(std::max(0.0, seconds) * 1e3) + 1; }

}  // namespace

LineSocket::LineSocket(int descriptor) : descriptor_(descriptor) { make_ready(descriptor); }

LineSocket::~LineSocket() { close(); }

LineSocket::LineSocket(LineSocket&& other) noexcept { *this = std::move(other); }

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  incoming_ = std::move(other.incoming_);
  outgoing_ = std::move(other.outgoing_);
  return *this;
}

void LineSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

LineSocket LineSocket::connect(const std::vector<std::string>& addresses, std::uint16_t port, double seconds) {
  std::vector<pollfd> tries;
  for (const std::string& address : addresses) {
    if (const int descriptor = begin_to_connect(address, port); descriptor >= 0) tries.push_back({descriptor, POLLOUT, 0});
  }
  const double end = steady_seconds() + seconds;
  int winner = -1;
  while (winner < 0 && !tries.empty() && steady_seconds() < end) {
    if (poll(tries.data(), tries.size(), milliseconds(end - steady_seconds())) <= 0) continue;
    for (auto attempt = tries.begin(); attempt != tries.end() && winner < 0;) {
      if (attempt->revents == 0) {
        ++attempt;
        continue;
      }
      is_connected(attempt->fd) ? static_cast<void>(winner = attempt->fd) : static_cast<void>(::close(attempt->fd));
      attempt = tries.erase(attempt);
    }
  }
  for (const pollfd& attempt : tries) ::close(attempt.fd);
  return winner < 0 ? LineSocket() : LineSocket(winner);
}

bool LineSocket::flush() {
  while (is_open() && !outgoing_.empty()) {
    const ssize_t sent = ::send(descriptor_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return false;  // receive() will see the end, after what came before it
    outgoing_.erase(0, static_cast<std::size_t>(sent));
  }
  return is_open();
}

bool LineSocket::send(const std::string& line) {
  if (!is_open()) return false;
  if (outgoing_.size() < kMostKept) outgoing_ += line + "\n";
  return flush();
}

std::vector<std::string> LineSocket::receive() {
  flush();
  std::array<char, 65536> buffer;
  while (is_open() && incoming_.size() < kMostKept) {
    const ssize_t got = recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      incoming_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else {
      close();
    }
  }
  if (incoming_.size() >= kMostKept && incoming_.find('\n') == std::string::npos) close();  // not one of us
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t end; (end = incoming_.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(incoming_.substr(at, end - at));
  }
  incoming_.erase(0, at);
  return lines;
}

LineListener::LineListener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (descriptor_ < 0 || bind(descriptor_, any, length) != 0 || listen(descriptor_, SOMAXCONN) != 0 ||
      getsockname(descriptor_, any, &length) != 0) {
    const std::string reason = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    fail(ExitCode::launch, "no TCP port can be opened for the monitor of ranks: {}; watch.timeout = 0 does without it", reason);
  }
  make_ready(descriptor_);
  port_ = ntohs(address.sin_port);
}

LineListener::~LineListener() { close(descriptor_); }

std::optional<LineSocket> LineListener::accept() {
  const int descriptor = ::accept(descriptor_, nullptr, nullptr);
  if (descriptor < 0) return std::nullopt;
  return LineSocket(descriptor);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
      if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      if (inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) != nullptr) addresses.emplace_back(text.data());
    }
    freeifaddrs(all);
  }
  addresses.emplace_back("127.0.0.1");
  return addresses;
}

std::vector<int> wait_for_input(const std::vector<int>& descriptors, double seconds) {
  std::vector<pollfd> watched;
  for (const int descriptor : descriptors) watched.push_back({descriptor, POLLIN, 0});
  std::vector<int> ready;
  if (poll(watched.data(), watched.size(), milliseconds(seconds)) <= 0) return ready;
  for (const pollfd& one : watched) {
    if (one.revents != 0) ready.push_back(one.fd);
  }
  return ready;
}

}  // namespace cohort
