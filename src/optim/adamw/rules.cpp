#include "config/optimizer_rules.hpp"

namespace cohort::adamw {

const OptimizerRules& rules() {
  static const OptimizerRules kRules{.kind = "adamw",
                                     .help = "Loshchilov & Hutter 2019",
                                     .keys = {"beta1", "beta2", "epsilon"},
                                     .slots = {{"m"}, {"v"}},
                                     .deepspeed_names = {"AdamW", "Adam", "FusedAdam"}};
  return kRules;
}

}  // namespace cohort::adamw
