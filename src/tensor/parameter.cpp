#include "tensor/parameter.hpp"

#include "tensor/convert.hpp"
#include "tensor/initial_values.hpp"

namespace cohort {

Box ShardSpec::box(const Shape& global) const {
  Box box = Box::whole(global);
  for (const Split& split : splits) box = intersection(box, Box::range(global, split.dim, split.begin, split.end));
  return box;
}

Parameter& ParameterRegistry::declare(std::string name, const Shape& global_shape, InitSpec init, Count padding,
                                      const ShardSpec& shard) {
  COHORT_CHECK(!values_.defined(), "parameter {} was declared after allocate()", name);
  COHORT_CHECK(find(name) == nullptr, "parameter {} was declared twice", name);
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  parameter->id = next_id_++;
  parameter->index = parameters_.size();
  parameter->layer = layer_;
  parameter->global_shape = global_shape;
  parameter->shard = shard;
  parameter->shape = Shape(shard.box(global_shape).count);
  parameter->offset = flat_elements_;
  parameter->padding = padding;
  parameter->init = init;
  parameter->role = global_shape.dims() == 2 ? ParameterRole::matrix : ParameterRole::vector;
  parameter->decays = global_shape.dims() >= 2;
  elements_ += parameter->elements();
  flat_elements_ += parameter->elements() + padding;
  by_name_[parameter->name] = parameter.get();
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

void ParameterRegistry::allocate(std::uint64_t seed, const ModelStorage& storage) {
  values_ = Tensor::zeros("parameters.values", {flat_elements_}, DType::f32, storage.device);
  gradients_ = Tensor::zeros("gradients.whole", {flat_elements_}, DType::f32, storage.device);
  compute_ = storage.compute == DType::f32
                 ? values_
                 : Tensor::zeros("parameters.compute", {flat_elements_}, storage.compute, storage.device);
  for (const auto& parameter : parameters_) {
    const auto part = [&](const Tensor& flat) {
      return flat.slice(parameter->offset, parameter->offset + parameter->elements()).reshaped(parameter->shape);
    };
    parameter->value = part(values_);
    parameter->gradient = part(gradients_);
    parameter->compute = part(compute_);
    set_initial_values(parameter->value, *parameter, 0, seed);
  }
  values_changed();
}

void ParameterRegistry::values_changed() const {
  if (compute_.raw() != values_.raw()) convert(compute_, values_);
}

Parameter* ParameterRegistry::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace cohort
