// Who was heard when, and whether anything moves: what the monitor on rank 0 decides by. Times are seconds of any one clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/diagnosis.hpp"

namespace cohort {

class Liveness {
 public:
  explicit Liveness(int ranks, double now);

  /// A rank says that it is there, and how much it has done so far (FlightRecorder::progress()).
  void heard(int rank, std::uint64_t progress, double now);
  /// Its connection has ended: in order (it is done and nothing is expected of it), or not.
  void left(int rank, bool in_order);
  /// This process, and perhaps all, were suspended: nobody is to be blamed for the time that has passed.
  void pardon(double now);

  RankView::Link link(int rank, double silence, double now) const;
  double seconds_since_heard(int rank, double now) const { return now - ranks_[static_cast<std::size_t>(rank)].heard; }
  /// For so long no rank has moved.
  double seconds_still(double now) const { return now - moved_; }
  /// Whether the job must be ended: a rank is gone; or one has been silent, or nothing has moved, for `limit` seconds.
  bool is_lost(double limit, double now) const;
  bool all_left() const;

 private:
  struct Rank {
    double heard = 0.0;
    std::uint64_t progress = 0;
    bool left = false;
    bool gone = false;
  };
  std::vector<Rank> ranks_;
  double moved_;
};

}  // namespace cohort
