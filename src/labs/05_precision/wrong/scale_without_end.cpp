// loss_scale_update: it never grows beyond the largest
#include <cohort/lab05_precision.hpp>

// Grows for ever.
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  if (overflowed) {
    state.good_steps = 0;
    if (state.scale / 2.0 < rule.minimum) return false;
    state.scale /= 2.0;
    return true;
  }
  if (++state.good_steps < rule.growth_interval) return true;
  state.good_steps = 0;
  state.scale *= 2.0;
  return true;
}
