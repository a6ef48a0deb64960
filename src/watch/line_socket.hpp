// TCP connections that carry lines of text, for the monitor: few, small, never waited for longer than asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// A connection. Nothing blocks: what the peer has not read yet is kept and sent later.
class LineSocket {
 public:
  LineSocket() = default;
  /// Takes over a connected socket.
  explicit LineSocket(int descriptor);
  ~LineSocket();
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;

  /// Tries the addresses at the same time, until one of them answers or `seconds` are over; then the socket is not open.
  static LineSocket connect(const std::vector<std::string>& addresses, std::uint16_t port, double seconds);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  /// `line` without newlines. False once the connection has ended.
  bool send(const std::string& line);
  /// The lines that have come, whole ones alone. After the peer has ended the connection is_open() is false, and what came before
  /// is handed out still.
  std::vector<std::string> receive();

 private:
  bool flush();

  int descriptor_ = -1;
  std::string incoming_, outgoing_;
};

/// Accepts connections on a port that the system chooses, on all IPv4 addresses of this machine.
class LineListener {
 public:
  /// Throws Error(launch).
  LineListener();
  ~LineListener();
  LineListener(const LineListener&) = delete;
  LineListener& operator=(const LineListener&) = delete;

  int descriptor() const { return descriptor_; }
  std::uint16_t port() const { return port_; }
  /// A connection that waits to be accepted.
  std::optional<LineSocket> accept();

 private:
  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

/// The IPv4 addresses of this machine's interfaces that are up; 127.0.0.1 comes last.
std::vector<std::string> own_addresses();

/// Waits until some of the sockets have something to read, or `seconds` are over; returns which have.
std::vector<int> wait_for_input(const std::vector<int>& descriptors, double seconds);

}  // namespace cohort
