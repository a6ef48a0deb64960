#include "train/check_optimizer.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "config/lora_keys.hpp"
#include "config/optimizer_groups.hpp"
#include "config/where_set.hpp"
#include "models/model.hpp"
#include "optim/parameter_groups.hpp"
#include "train/precision.hpp"

namespace cohort {

namespace {

// Each pattern is of a weight that has adapters.
void check_targets(const RunConfig& config, const ParameterRegistry& parameters) {
  constexpr std::string_view kAdapter = ".lora_a";
  std::vector<std::string> weights;
  std::string any;
  for (const auto& parameter : parameters.all()) {
    const std::string& name = parameter->name;
    if (name.ends_with(kAdapter)) weights.push_back(name.substr(0, name.size() - kAdapter.size()) + ".weight");
    if (name.starts_with("blocks.") && parameter->global_shape.dims() == 2 && any.empty()) any = name;
  }
  for (const std::string& pattern : lora_targets(config.model.lora)) {
    if (std::any_of(weights.begin(), weights.end(), [&](const std::string& name) { return matches(pattern, name); })) continue;
    fail(ExitCode::config,
         "{}lora.targets: \"{}\" matches no weight of a linear layer in a block of this model; names look like {}",
         where_set(config, {"lora.targets", "lora.rank"}), pattern, any);
  }
}

}  // namespace

std::string check_optimizer(const RunConfig& config) {
  ModelSection model = config.model;
  model.vocabulary = std::max<Count>(2, model.vocabulary);  // which has no part in names
  const std::unique_ptr<Model> whole = declare_model(model, storage_of(config));
  if (model.lora.rank > 0) check_targets(config, whole->parameters());
  return ParameterGroups(config.optimizer).check(whole->parameters());
}

}  // namespace cohort
