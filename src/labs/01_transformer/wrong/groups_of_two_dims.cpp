// parameter_groups: convolution.weight of 3 dims is in the group that does not decay
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].trained) groups[tensors[i].shape.size() == 2 ? 0 : 1].members.push_back(i);
  }
}
