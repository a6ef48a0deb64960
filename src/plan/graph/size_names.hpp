// Shapes in the sizes of the model instead of numbers: [1024, 384] is [BT, 3C]. Nobody says which size a dim is: the step is
// counted once more with other sizes, and a dim is the expression that has the right value both times.
#pragma once

#include <string>
#include <vector>

#include "plan/graph/step_graph.hpp"

namespace cohort {

/// A size of the model on one rank, or a product of several.
struct SizeName {
  std::string symbols;  // "BT/cp"
  Count value = 0;
};
/// Of a validated run file, the simplest first; what is not known of a family is not here. `expressions`: with products.
std::vector<SizeName> size_names(const RunConfig& config, bool expressions);

/// Fills GraphTensor::symbols of a stage of `config`; dims that no expression fits stay numbers.
void name_sizes(const RunConfig& config, GraphStage& stage);

}  // namespace cohort
