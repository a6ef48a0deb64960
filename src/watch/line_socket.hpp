// TCP connections that carry lines of text, for the monitor: few, small, never waited for longer than asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

/// Where somebody listens: a numeric address, IPv4 or IPv6, and a TCP port.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

/// A connection. Nothing blocks: what the peer has not read yet is kept and sent later.
class LineSocket {
 public:
  /// A peer that has not read this much is not there any more, and no line of ours is longer.
  static constexpr std::size_t kMostKept = std::size_t{16} << 20;

  LineSocket() = default;
  /// Takes over a connected socket.
  explicit LineSocket(int descriptor);
  ~LineSocket();
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;

  /// Says `hello` at all endpoints at the same time; the first that answers `welcome` is the connection. Who turns it away (it
  /// may have had too many at its door) is asked again. Not open if none welcomes it within `seconds`.
  static LineSocket connect(const std::vector<Endpoint>& endpoints, const std::string& hello, const std::string& welcome,
                            double seconds);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

  /// `line` without newlines. False once the connection has ended.
  bool send(const std::string& line);
  /// The lines that have come, only whole ones. After the peer has ended the connection is_open() is false, and what came before
  /// is handed out still.
  std::vector<std::string> receive();
  /// A peer that sends a longer line is cut off (kMostKept unless set).
  void limit_line(std::size_t bytes) { longest_line_ = bytes; }

 private:
  bool flush();

  int descriptor_ = -1;
  std::size_t longest_line_ = kMostKept;
  std::string incoming_, write_plan_;
};

/// Accepts connections at one address of this machine, on a port that the system chooses.
class LineListener {
 public:
  /// Throws Error(launch) if the address is not there, or has no port left.
  explicit LineListener(const std::string& address);
  ~LineListener();
  LineListener(LineListener&& other) noexcept;
  LineListener& operator=(LineListener&&) = delete;

  int descriptor() const { return descriptor_; }
  const Endpoint& endpoint() const { return endpoint_; }
  /// A connection that waits to be accepted.
  std::optional<LineSocket> accept();

 private:
  int descriptor_ = -1;
  Endpoint endpoint_;
};

/// Waits until some of the sockets have something to read, or `seconds` are over; returns which have.
std::vector<int> wait_for_input(const std::vector<int>& descriptors, double seconds);

}  // namespace cohort
