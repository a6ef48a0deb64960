// parameter_groups: it would never be updated
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

// What does not decay is left out.
void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].trained && tensors[i].shape.size() >= 2) groups[0].members.push_back(i);
  }
}
