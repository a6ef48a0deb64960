#include "watch/line_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "observe/clock.hpp"
#include "watch/send_quietly.hpp"

namespace cohort {
namespace {

void make_ready(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // a command that is run when a checkpoint is complete must not hold it open
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// A socket address of either family.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const Endpoint& endpoint) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, endpoint.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    address.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, endpoint.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(endpoint.port);
    address.length = sizeof *v6;
  }
  return address;
}

std::uint16_t port_of(Address& address) {
  return ntohs(address.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port
                                                     : reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
}

int begin_to_connect(const Endpoint& endpoint) {
  Address address = address_of(endpoint);
  const int descriptor = socket(address.storage.ss_family, SOCK_STREAM, 0);
  if (descriptor < 0) return -1;
  make_ready(descriptor);
  if (connect(descriptor, address.get(), address.length) == 0 || errno == EINPROGRESS) return descriptor;
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
  longest_line_ = other.longest_line_;
  incoming_ = std::move(other.incoming_);
  write_plan_ = std::move(other.write_plan_);
  return *this;
}

void LineSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

namespace {

/// One endpoint that is being tried.
struct Attempt {
  const Endpoint* to;
  LineSocket socket;
  bool connected = false;
};

enum class Answer { none, welcome, turned_away, unreachable };

Answer go_on(Attempt& attempt, const std::string& hello, const std::string& welcome) {
  if (!attempt.connected) {
    if (!is_connected(attempt.socket.descriptor())) return Answer::unreachable;
    attempt.connected = true;
    attempt.socket.send(hello);
    return Answer::none;
  }
  for (const std::string& line : attempt.socket.receive()) {
    if (line == welcome) return Answer::welcome;
  }
  return attempt.socket.is_open() ? Answer::none : Answer::turned_away;
}

}  // namespace

LineSocket LineSocket::connect(const std::vector<Endpoint>& endpoints, const std::string& hello, const std::string& welcome,
                               double seconds) {
  constexpr std::chrono::milliseconds kBeforeNextTry{50};
  std::vector<Attempt> attempts;
  const auto begin = [&](const Endpoint& to) {
    if (const int descriptor = begin_to_connect(to); descriptor >= 0) attempts.push_back({&to, LineSocket(descriptor)});
  };
  for (const Endpoint& endpoint : endpoints) begin(endpoint);
  const double end = steady_seconds() + seconds;
  while (!attempts.empty() && steady_seconds() < end) {
    std::vector<pollfd> watched;
    for (const Attempt& attempt : attempts)
      watched.push_back({attempt.socket.descriptor(), static_cast<short>(attempt.connected ? POLLIN : POLLOUT), 0});
    if (poll(watched.data(), watched.size(), milliseconds(end - steady_seconds())) <= 0) continue;
    std::vector<Attempt> going_on;
    std::vector<const Endpoint*> again;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      const Answer answer = watched[i].revents == 0 ? Answer::none : go_on(attempts[i], hello, welcome);
      if (answer == Answer::welcome) return std::move(attempts[i].socket);
      if (answer == Answer::none) going_on.push_back(std::move(attempts[i]));
      if (answer == Answer::turned_away) again.push_back(attempts[i].to);
    }
    attempts = std::move(going_on);
    if (!again.empty()) std::this_thread::sleep_for(kBeforeNextTry);
    for (const Endpoint* endpoint : again) begin(*endpoint);
  }
  return {};
}

bool LineSocket::flush() {
  while (is_open() && !write_plan_.empty()) {
    const ssize_t sent = send_quietly(descriptor_, write_plan_.data(), write_plan_.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return false;  // receive() will see the end, after what came before it
    write_plan_.erase(0, static_cast<std::size_t>(sent));
  }
  return is_open();
}

bool LineSocket::send(const std::string& line) {
  if (!is_open()) return false;
  if (write_plan_.size() < kMostKept) write_plan_ += line + "\n";
  return flush();
}

std::vector<std::string> LineSocket::receive() {
  flush();
  std::array<char, 65536> buffer;
  while (is_open() && incoming_.size() < longest_line_) {
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
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t end; (end = incoming_.find('\n', at)) != std::string::npos && end - at <= longest_line_; at = end + 1) {
    lines.push_back(incoming_.substr(at, end - at));
  }
  incoming_.erase(0, at);
  if (incoming_.find('\n') != std::string::npos || incoming_.size() >= longest_line_) {  // not one of us
    close();
    incoming_.clear();
  }
  return lines;
}

LineListener::LineListener(const std::string& address) : endpoint_{address, 0} {
  Address own = address_of(endpoint_);
  descriptor_ = socket(own.storage.ss_family, SOCK_STREAM, 0);
  if (descriptor_ < 0 || bind(descriptor_, own.get(), own.length) != 0 || listen(descriptor_, SOMAXCONN) != 0 ||
      getsockname(descriptor_, own.get(), &own.length) != 0) {
    const std::string reason = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    fail(ExitCode::launch, "no TCP port can be opened at {} for the monitor of ranks: {}", address, reason);
  }
  make_ready(descriptor_);
  endpoint_.port = port_of(own);
}

LineListener::~LineListener() {
  if (descriptor_ >= 0) close(descriptor_);
}

LineListener::LineListener(LineListener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), endpoint_(std::move(other.endpoint_)) {}

std::optional<LineSocket> LineListener::accept() {
  const int descriptor = ::accept(descriptor_, nullptr, nullptr);
  if (descriptor < 0) return std::nullopt;
  return LineSocket(descriptor);
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
