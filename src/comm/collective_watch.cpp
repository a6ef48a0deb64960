#include "comm/collective_watch.hpp"

#include "base/error.hpp"

namespace cohort {

std::string CollectiveFacts::str() const {
  const std::string together = more == 0 ? "" : fmt::format(", with {} more started together", more);
  return fmt::format("{} of {} {} on group '{}' (number {}), rank {} of {}{}", operation, elements, name_of(dtype), group, number,
                     rank, size, together);
}

void CollectiveWatch::set_timeout(double seconds) {
  COHORT_CHECK(seconds > 0.0, "the timeout of collectives is {} s, but must be positive", seconds);
  timeout_ = seconds;
}

void CollectiveWatch::check(Clock::time_point now) {
  while (!operations_.empty() && operations_.front()->done()) {
    for (const FlightRecorder::Id record : operations_.front()->records) FlightRecorder::of_process().finish(record);
    operations_.pop_front();
    waiting_since_.reset();
  }
  if (operations_.empty()) return;
  const InFlight& oldest = *operations_.front();
  if (!waiting_since_) {
    if (!oldest.may_run()) return;
    waiting_since_ = now;
  }
  if (std::chrono::duration<double>(now - *waiting_since_).count() <= timeout_) return;
  fail(ExitCode::lost,
       "{}: not finished after {:g} s. A peer is lost or stuck: see which other rank's log ends first, and whether that rank was "
       "at the same collective",
       oldest.facts().str(), timeout_);
}

void CollectiveWatch::clear() {
  operations_.clear();
  waiting_since_.reset();
}

}  // namespace cohort
