// parameter_groups: of 1 dim is in the group that decays
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <vector>

void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].trained) groups[0].members.push_back(i);
  }
}
