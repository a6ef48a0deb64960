// loss_scale_update: an overflow begins the count anew
#include <algorithm>
#include <cohort/lab05_precision.hpp>

// Good steps before an overflow count, too.
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  if (overflowed) {
    if (state.scale / 2.0 < rule.minimum) return false;
    state.scale /= 2.0;
    return true;
  }
  if (++state.good_steps < rule.growth_interval) return true;
  state.good_steps = 0;
  state.scale = std::min(2.0 * state.scale, rule.largest);
  return true;
}
