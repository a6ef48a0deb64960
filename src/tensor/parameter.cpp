#include "tensor/parameter.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace cohort {
namespace {

void initialise(const Parameter& parameter, std::uint64_t seed) {
  const CounterRandom random(seed, RandomPurpose::init, 0, static_cast<std::uint32_t>(parameter.id));
  float* value = parameter.value.f32();
  const Count elements = parameter.elements();
  switch (parameter.init.kind) {
    case InitSpec::Kind::zeros:
      std::fill(value, value + elements, 0.0f);
      break;
    case InitSpec::Kind::ones:
      std::fill(value, value + elements, 1.0f);
      break;
    case InitSpec::Kind::normal:
      for (Count i = 0; i < elements; i += 4) {
        const auto normals = random.normals(static_cast<std::uint64_t>(i / 4));
        for (Count j = i; j < std::min(elements, i + 4); ++j) {
          value[j] = static_cast<float>(parameter.init.scale) * normals[static_cast<std::size_t>(j - i)];
        }
      }
      break;
    case InitSpec::Kind::uniform:
      for (Count i = 0; i < elements; ++i)
        value[i] = static_cast<float>(parameter.init.scale * (2.0 * random.uniform(static_cast<std::uint64_t>(i)) - 1.0));
      break;
  }
}

}  // namespace

Parameter& ParameterRegistry::declare(std::string name, const Shape& shape, InitSpec init) {
  COHORT_CHECK(!values_.defined(), "parameter {} was declared after allocate()", name);
  COHORT_CHECK(find(name) == nullptr, "parameter {} was declared twice", name);
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  parameter->id = static_cast<int>(parameters_.size());
  parameter->global_shape = shape;
  parameter->init = init;
  parameter->decays = shape.dims() >= 2;
  offsets_.push_back(elements_);
  elements_ += shape.elements();
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

void ParameterRegistry::allocate(std::uint64_t seed) {
  values_ = Tensor::zeros("parameters.values", {elements_});
  gradients_ = Tensor::zeros("parameters.gradients", {elements_});
  for (const auto& parameter : parameters_) {
    const Count begin = offset(*parameter);
    const Count end = begin + parameter->global_shape.elements();
    parameter->value = values_.slice(begin, end).reshaped(parameter->global_shape);
    parameter->gradient = gradients_.slice(begin, end).reshaped(parameter->global_shape);
    initialise(*parameter, seed);
  }
}

Parameter* ParameterRegistry::find(const std::string& name) const {
  for (const auto& parameter : parameters_) {
    if (parameter->name == name) return parameter.get();
  }
  return nullptr;
}

Count ParameterRegistry::offset(const Parameter& parameter) const { return offsets_[static_cast<std::size_t>(parameter.id)]; }

}  // namespace cohort
