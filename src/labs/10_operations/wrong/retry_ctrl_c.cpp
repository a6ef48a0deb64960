// retry_or_give_up: Ctrl-C, after it had saved
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Takes a person for a failure.
Retry retry_or_give_up(std::span<const JobStart> starts, int most) {
  const JobStart& last = starts.back();
  if (last.exit_code == 0) return {training_done, 0.0};
  const bool may_pass = last.exit_code == 9 || last.exit_code == 12 || last.exit_code >= 128;
  const auto got_on = [](const JobStart& start) { return start.saved_step > start.began_at; };
  if (!may_pass || static_cast<int>(starts.size()) >= most || (!got_on(last) && !last.node_lost)) return {give_up, 0.0};
  if (got_on(last)) return {start_again, 0.0};
  double wait = 20.0;
  for (std::size_t i = starts.size() - 1; i > 0 && !got_on(starts[i - 1]); --i) wait = std::min(2.0 * wait, 600.0);
  return {start_again, wait};
}
