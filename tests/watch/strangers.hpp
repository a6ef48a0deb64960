// Connections from outside the job to the monitor's door, of the kinds that port scans and broken programs make. On this
// machine's loopback alone.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "watch/line_socket.hpp"

namespace cohort::test {

/// Both ends of a thousand connections are open files of one process.
inline void allow_many_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The descriptor of a connection to an IPv4 endpoint; -1 if nobody listens there.
inline int knock(const Endpoint& at) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(at.port);
  inet_pton(AF_INET, at.address.c_str(), &address.sin_addr);
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return descriptor;
  close(descriptor);
  return -1;
}

/// Four kinds, `count` of each: some say nothing, some send a letter every 20 ms, some a line that is no hello, some a line that
/// never ends. Those that are turned away come back.
class Strangers {
 public:
  Strangers(const Endpoint& at, int count) : at_(at), descriptors_(static_cast<std::size_t>(4 * count), -1) {
    thread_ = std::thread([this] { disturb(); });
  }
  ~Strangers() {
    ending_ = true;
    thread_.join();
    for (const int descriptor : descriptors_) close(descriptor);
  }
  /// How often one has knocked.
  int knocks() const { return knocks_; }

 private:
  void disturb() {
    const std::string garbage[] = {"GET / HTTP/1.1\r\n", "\x16\x03\x01\n", "[[[[\n", "{\"hello\":1,\"rank\":\"one\"}\n", "\n"};
    const std::string endless(64 << 10, 'x');
    while (!ending_) {
      for (std::size_t i = 0; i < descriptors_.size() && !ending_; ++i) {
        int& descriptor = descriptors_[i];
        const bool sent = descriptor >= 0 && (i % 4 == 0   ? is_open(descriptor)
                                              : i % 4 == 1 ? send(descriptor, "x")
                                              : i % 4 == 2 ? send(descriptor, garbage[i / 4 % 5])
                                                           : send(descriptor, endless));
        if (sent) continue;
        if (descriptor >= 0) close(descriptor);
        descriptor = knock(at_);
        if (descriptor >= 0) ++knocks_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  static bool send(int descriptor, const std::string& text) {
    return ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
  }
  static bool is_open(int descriptor) {
    char letter = 0;
    return recv(descriptor, &letter, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  Endpoint at_;
  std::vector<int> descriptors_;
  std::atomic<int> knocks_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace cohort::test
