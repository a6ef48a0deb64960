#include "config/optimizer_rules.hpp"

namespace cohort::lion {

const OptimizerRules& rules() {
  static const OptimizerRules kRules{.kind = "lion",
                                     .help = "Chen et al. 2023: one slot; needs a smaller learning rate and a larger decay",
                                     .keys = {"beta1", "beta2"},
                                     .slots = {{"mean"}},
                                     .deepspeed_names = {"Lion", "FusedLion"}};
  return kRules;
}

}  // namespace cohort::lion
