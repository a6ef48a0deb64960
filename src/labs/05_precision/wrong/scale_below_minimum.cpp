// loss_scale_update: it never falls below the minimum
#include <algorithm>
#include <cohort/lab05_precision.hpp>

// Halves, and looks afterwards.
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  if (overflowed) {
    state.good_steps = 0;
    state.scale /= 2.0;
    return state.scale >= rule.minimum;
  }
  if (++state.good_steps < rule.growth_interval) return true;
  state.good_steps = 0;
  state.scale = std::min(2.0 * state.scale, rule.largest);
  return true;
}
