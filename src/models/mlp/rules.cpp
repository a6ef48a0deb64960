#include "config/model_rules.hpp"

namespace cohort::mlp {

const ModelRules& rules() {
  static const ModelRules kRules{.kind = "mlp",
                                 .help = "a classifier of linear layers with ReLU between them",
                                 .keys = {{"layers"}, {"width"}, {"inputs"}, {"classes"}},
                                 .identity = {"inputs", "layers", "width", "classes"},
                                 .data = "two_moons",
                                 .resolve = [](RunConfig&) {}};
  return kRules;
}

}  // namespace cohort::mlp
