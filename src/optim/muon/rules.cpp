#include "config/optimizer_rules.hpp"

namespace cohort::muon {

const OptimizerRules& rules() {
  static const OptimizerRules kRules{
      .kind = "muon",
      .help = "Jordan et al. 2024, for the matrices of blocks; tables, head, norms and biases by adamw",
      .keys = {},
      .own_keys = {{"momentum", 0.95, NumberRange{0.0, 1.0, false, true}, "decay of the sum of gradients"},
                   {"newton_schulz_steps", Count{5}, IntegerRange{1, 20}, "iterations that make a direction orthogonal"}},
      .slots = {{"momentum"}},
      .whole_matrices = true,
      .others = "adamw",
      .deepspeed_names = {"Muon"}};
  return kRules;
}

}  // namespace cohort::muon
