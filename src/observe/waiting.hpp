// How long a thread has waited for other ranks: what must be taken off the time of a step to see the rank's own work.
#pragma once

namespace cohort {

/// Seconds that the calling thread has waited in operations among ranks (Request::wait(), barriers) since it began. Operations on
/// a device do not count: there the host does not wait.
double seconds_waited();

/// Counts the time until the end of the C++ scope as waited, by the thread that makes it; scopes are not nested.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  double begin_;
};

}  // namespace cohort
