// What the tests of layers share: a registry with random values, and a context.
#pragma once

#include "nn/context.hpp"
#include "ops/compare.hpp"
#include "tensor/parameter.hpp"

namespace cohort::test {

using ops::Array;

/// Allocates the registry, and gives every parameter random values and a random gradient, onto which backward must accumulate.
inline void randomise(ParameterRegistry& registry, double scale = 0.5, DType compute = DType::f32) {
  registry.allocate(1, {.compute = compute});
  registry.flat_values().copy_from(ops::tensor_of(ops::random_values(registry.elements(), 50, scale), {registry.elements()}));
  registry.values_changed();
  registry.flat_gradients().copy_from(ops::tensor_of(ops::random_values(registry.elements(), 51), {registry.elements()}));
}

inline Tensor random_tensor(const Shape& shape, std::uint32_t stream, double scale = 1.0) {
  return ops::tensor_of(ops::random_values(shape.elements(), stream, scale), shape);
}

/// Sets all of a parameter.
inline void set_all(const ParameterRegistry& registry, const std::string& name, float value) {
  for (float& element : registry.find(name)->value.span<float>()) element = value;
}

/// The n x n identity.
inline void set_identity(const ParameterRegistry& registry, const std::string& name) {
  const Tensor& matrix = registry.find(name)->value;
  for (Count i = 0; i < matrix.elements(); ++i) {
    matrix.f32()[i] = i / matrix.shape().columns() == i % matrix.shape().columns() ? 1.0f : 0.0f;
  }
}

inline std::vector<std::string> names_of(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters) names.push_back(parameter->name);
  return names;
}

}  // namespace cohort::test
