#include "tensor/parameter.hpp"

#include "tensor/convert.hpp"
#include "tensor/initial_values.hpp"

namespace cohort {
Parameter& ParameterRegistry::declare(std::string name, const Shape& shape, InitSpec init, Count padding) {
  COHORT_CHECK(!values_.defined(), "parameter {} was declared after allocate()", name);
  COHORT_CHECK(find(name) == nullptr, "parameter {} was declared twice", name);
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  parameter->id = static_cast<int>(parameters_.size());
  parameter->global_shape = shape;
  parameter->init = init;
  parameter->decays = shape.dims() >= 2;
  offsets_.push_back(flat_elements_);
  elements_ += shape.elements();
  flat_elements_ += shape.elements() + padding;
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

void ParameterRegistry::allocate(std::uint64_t seed, const Placement& placement) {
  values_ = Tensor::zeros("parameters.values", {flat_elements_}, DType::f32, placement.device);
  gradients_ = Tensor::zeros("parameters.gradients", {flat_elements_}, DType::f32, placement.device);
  compute_ = placement.compute == DType::f32
                 ? values_
                 : Tensor::zeros("parameters.compute", {flat_elements_}, placement.compute, placement.device);
  for (const auto& parameter : parameters_) {
    const Count begin = offset(*parameter);
    const Count end = begin + parameter->global_shape.elements();
    const auto part = [&](const Tensor& flat) { return flat.slice(begin, end).reshaped(parameter->global_shape); };
    parameter->value = part(values_);
    parameter->gradient = part(gradients_);
    parameter->compute = part(compute_);
    set_initial_values(*parameter, seed);
  }
  values_changed();
}

void ParameterRegistry::values_changed() const {
  if (compute_.raw() != values_.raw()) convert(compute_, values_);
}

Parameter* ParameterRegistry::find(const std::string& name) const {
  for (const auto& parameter : parameters_) {
    if (parameter->name == name) return parameter.get();
  }
  return nullptr;
}

Count ParameterRegistry::offset(const Parameter& parameter) const { return offsets_[static_cast<std::size_t>(parameter.id)]; }

}  // namespace cohort
