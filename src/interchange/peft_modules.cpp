#include "interchange/peft_modules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "interchange/hf_config.hpp"
#include "interchange/hf_layout.hpp"

namespace cohort {
namespace {

constexpr std::string_view kWeight = ".weight";

}  // namespace

std::string adapter_of(const std::string& weight, std::string_view adapter) {
  if (!weight.ends_with(kWeight)) return "";
  return fmt::format("{}.{}", weight.substr(0, weight.size() - kWeight.size()), adapter);
}

Count PeftModule::outputs() const {
  Count sum = 0;
  for (const Part& part : parts) sum += part.outputs;
  return sum;
}

Count PeftModule::adapters() const {
  return std::count_if(parts.begin(), parts.end(), [](const Part& part) { return part.adapted; });
}

std::string PeftModule::tensor(std::string_view adapter) const {
  return fmt::format("base_model.model.{}.{}.weight", name, adapter);
}

std::vector<PeftModule> linear_modules(const ModelSection& model) {
  std::map<std::string, Shape> shapes;
  for (const TensorInfo& tensor : parameters_of(model)) shapes.emplace(tensor.name, tensor.shape);
  std::vector<PeftModule> modules;
  for (const Correspondence& one : hugging_face_form_of(model).correspondences(model)) {
    const Shape& first = shapes.at(one.ours.front());
    if (first.dims() != 2 || !one.ours.front().starts_with("blocks.")) continue;
    PeftModule module{.name = one.theirs.substr(0, one.theirs.size() - kWeight.size()),
                      .parts = {},
                      .inputs = first[1],
                      .transposed = one.transposed};
    for (const std::string& weight : one.ours)
      module.parts.push_back({weight, shapes.at(weight)[0], shapes.contains(adapter_of(weight, kLoraA))});
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<PeftModule> adapted_modules(const ModelSection& model) {
  std::vector<PeftModule> modules = linear_modules(model);
  std::erase_if(modules, [](const PeftModule& module) { return module.adapters() == 0; });
  return modules;
}

}  // namespace cohort
