// parameter_groups: group 0 has the weight decay 0
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{0.0, {}}, {weight_decay, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].trained) groups[tensors[i].shape.size() >= 2 ? 1 : 0].members.push_back(i);
  }
}
