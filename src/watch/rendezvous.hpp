// Rank 0's door, at which the other ranks connect to the monitor when the job starts. Whoever knocks has to say within seconds,
// in one short line, which rank of this job it is; all others are turned away, and nobody is waited for. When all ranks are in,
// the door is closed for good: from then on the monitor listens nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/line_socket.hpp"

namespace cohort {

/// Who a rank says it is.
struct Hello {
  int rank = 0;
  std::string host;
  std::int64_t process = 0;
};

/// The line that a rank sends first.
std::string to_line(const Hello& hello, std::string_view token);
/// Nothing if `line` is anything but the hello of a rank 1 to size-1 with this token. Never throws on what a stranger may send.
std::optional<Hello> hello_from(const std::string& line, std::string_view token, int size);

class Rendezvous {
 public:
  static constexpr std::size_t kMostPending = 128;    // connections that have not said who they are
  static constexpr double kPatience = 5.0;            // seconds until they are dropped
  static constexpr std::size_t kLongestHello = 4096;  // bytes
  static constexpr const char* kWelcome = "welcome";  // the answer to a rank

  struct Guest {
    Hello hello;
    LineSocket socket;
  };

  /// Listens at those of `addresses` where it can; throws Error(launch) if that is nowhere.
  Rendezvous(const std::vector<std::string>& addresses, int size);

  std::vector<Endpoint> endpoints() const;
  /// Of 128 random bits: who does not know it is not of this job.
  const std::string& token() const { return token_; }

  /// The ranks that have come by `now` and are `wanted` (are not here yet); each has been sent kWelcome. Takes no longer than
  /// reading what has come: when too many are pending, those that have had the most time give way.
  std::vector<Guest> admit(double now, const std::function<bool(int)>& wanted);
  /// Readable when admit() has something to do.
  std::vector<int> descriptors() const;

 private:
  struct Pending {
    LineSocket socket;
    double since = 0.0;
  };

  std::vector<LineListener> listeners_;
  std::list<Pending> pending_;  // oldest first
  std::string token_;
  int size_;
};

}  // namespace cohort
