// What the tests of layers share: a registry with random values, and a context. All on the device under test.
#pragma once

#include "nn/context.hpp"
#include "ops/compare.hpp"
#include "tensor/parameter.hpp"

namespace cohort::test {

using ops::Array;

/// Allocates the registry, and gives every parameter random values and a random gradient, onto which backward must accumulate.
inline void randomise(ParameterRegistry& registry, double scale = 0.5, DType compute = DType::f32) {
  registry.allocate(1, {.device = test_device(), .compute = compute});
  registry.flat_values().copy_from(ops::tensor_of(ops::random_values(registry.elements(), 50, scale), {registry.elements()}));
  registry.values_changed();
  registry.flat_gradients().copy_from(ops::tensor_of(ops::random_values(registry.elements(), 51), {registry.elements()}));
}

/// Without an arena for layers that need none.
inline StepContext context_with(Arena* arena = nullptr) { return {.exec = ops::test_exec(), .activations = arena}; }

inline Tensor random_tensor(const Shape& shape, std::uint32_t stream, double scale = 1.0) {
  return ops::tensor_of(ops::random_values(shape.elements(), stream, scale), shape);
}

/// Sets all of a parameter.
inline void set_all(const ParameterRegistry& registry, const std::string& name, float value) {
  const Tensor& parameter = registry.find(name)->value;
  parameter.copy_from(ops::filled(parameter.shape(), value));
}

/// The n x n identity.
inline void set_identity(const ParameterRegistry& registry, const std::string& name) {
  const Tensor& matrix = registry.find(name)->value;
  Array values(static_cast<std::size_t>(matrix.elements()), 0.0);
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(matrix.shape().columns()) + 1) values[i] = 1.0;
  matrix.copy_from(ops::tensor_of(values, matrix.shape()));
}

inline std::vector<std::string> names_of(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters) names.push_back(parameter->name);
  return names;
}

}  // namespace cohort::test
