// loss_scale_update: after the scale has doubled the count begins anew
#include <algorithm>
#include <cohort/lab05_precision.hpp>

// After enough good steps each further one doubles.
bool loss_scale_update(LossScale& state, const LossScaleRule& rule, bool overflowed) {
  if (overflowed) {
    state.good_steps = 0;
    if (state.scale / 2.0 < rule.minimum) return false;
    state.scale /= 2.0;
    return true;
  }
  if (++state.good_steps >= rule.growth_interval) state.scale = std::min(2.0 * state.scale, rule.largest);
  return true;
}
