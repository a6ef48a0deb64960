// parameter_groups: is not trained, but it is in group
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    groups[tensors[i].shape.size() >= 2 ? 0 : 1].members.push_back(i);
  }
}
