#include "tensor/parameter.hpp"

#include "tensor/convert.hpp"
#include "tensor/initial_values.hpp"

namespace cohort {

Shape ShardSpec::local(const Shape& global) const {
  std::vector<Count> dims = global.vector();
  if (split) {
    COHORT_CHECK(
        split->dim < global.dims() && 0 <= split->begin && split->begin <= split->end && split->end <= global[split->dim],
        "elements {} to {} of dim {} of a tensor of shape {}", split->begin, split->end, split->dim, global.str());
    dims[static_cast<std::size_t>(split->dim)] = split->end - split->begin;
  }
  return Shape(dims);
}

ShardMap::ShardMap(const Shape& global, const ShardSpec& shard) {
  Count inner = 1;  // elements of one index of the split dim
  const int dim = shard.split ? shard.split->dim : 0;
  for (int d = dim + 1; d < global.dims(); ++d) inner *= global[d];
  const Count all = global.dims() == 0 ? 1 : global[dim];
  run = (shard.split ? shard.split->end - shard.split->begin : all) * inner;
  stride = all * inner;
  first = shard.split ? shard.split->begin * inner : 0;
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
  parameter->shape = shard.local(global_shape);
  parameter->offset = flat_elements_;
  parameter->padding = padding;
  parameter->init = init;
  parameter->decays = global_shape.dims() >= 2;
  elements_ += parameter->elements();
  flat_elements_ += parameter->elements() + padding;
  by_name_[parameter->name] = parameter.get();
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
