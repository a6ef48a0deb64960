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
  return add(std::move(name), global_shape, init, padding, shard, freezes_);
}

Parameter& ParameterRegistry::declare_adapter(std::string name, const Shape& global_shape, InitSpec init,
                                              const ShardSpec& shard) {
  return add(std::move(name), global_shape, init, 0, shard, false);
}

Parameter& ParameterRegistry::add(std::string name, const Shape& global_shape, InitSpec init, Count padding,
                                  const ShardSpec& shard, bool frozen) {
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
  parameter->frozen = frozen;
  Count& end = frozen ? flat_frozen_elements_ : flat_elements_;
  parameter->offset = end;
  parameter->padding = padding;
  parameter->init = init;
  parameter->role = global_shape.dims() == 2 ? ParameterRole::matrix : ParameterRole::vector;
  parameter->decays = global_shape.dims() >= 2;
  end += parameter->elements() + padding;
  elements_ += parameter->elements();
  if (!frozen) {
    trained_elements_ += parameter->elements();
    trained_.push_back(parameter.get());
  }
  by_name_[parameter->name] = parameter.get();
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

namespace {

Tensor part_of(const Tensor& flat, const Parameter& parameter) {
  return flat.slice(parameter.offset, parameter.offset + parameter.elements()).reshaped(parameter.shape);
}

}  // namespace

void ParameterRegistry::set_tensors(Parameter& parameter, const Tensor& values, const Tensor& compute, std::uint64_t seed) const {
  parameter.value = part_of(values, parameter);
  parameter.compute = part_of(compute, parameter);
  set_initial_values(parameter.value, parameter, 0, seed);
}

void ParameterRegistry::allocate_values(std::uint64_t seed, const ModelStorage& storage) {
  values_ = Tensor::zeros("parameters.values", {flat_elements_}, DType::f32, storage.device);
  compute_ = storage.compute == DType::f32
                 ? values_
                 : Tensor::zeros("parameters.compute", {flat_elements_}, storage.compute, storage.device);
  for (Parameter* parameter : trained_) set_tensors(*parameter, values_, compute_, seed);
  allocate_frozen(seed, storage);
  values_changed();
}

void ParameterRegistry::allocate(std::uint64_t seed, const ModelStorage& storage) {
  gradients_ = Tensor::zeros("gradients.whole", {flat_elements_}, DType::f32, storage.device);
  for (Parameter* parameter : trained_) parameter->gradient = part_of(gradients_, *parameter);
  allocate_values(seed, storage);
}

void ParameterRegistry::allocate_frozen(std::uint64_t seed, const ModelStorage& storage) {
  if (flat_frozen_elements_ == 0) return;
  frozen_values_ = Tensor::zeros("parameters.frozen", {flat_frozen_elements_}, DType::f32, storage.device);
  frozen_compute_ = storage.compute == DType::f32
                        ? frozen_values_
                        : Tensor::zeros("parameters.compute", {flat_frozen_elements_}, storage.compute, storage.device);
  for (const auto& parameter : parameters_) {
    if (parameter->frozen) set_tensors(*parameter, frozen_values_, frozen_compute_, seed);
  }
  if (frozen_compute_.raw() != frozen_values_.raw()) convert(frozen_compute_, frozen_values_);
}

void ParameterRegistry::values_changed() const {
  if (compute_.raw() != values_.raw()) convert(compute_, values_);
  if (frozen_compute_.raw() != frozen_values_.raw()) convert(frozen_compute_, frozen_values_);
}

Parameter* ParameterRegistry::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

}  // namespace cohort
