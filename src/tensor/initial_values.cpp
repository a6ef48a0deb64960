#include "tensor/initial_values.hpp"

#include "base/random.hpp"
#include "tensor/spaces.hpp"

namespace cohort {
namespace {

void fill(const Parameter& parameter, float constant) {
  float* value = parameter.value.f32();
  for_each_index(
      parameter.value.device(), "cohort::initial_values", parameter.elements(), KOKKOS_LAMBDA(Count i) { value[i] = constant; });
}

void fill_normal(const Parameter& parameter, const CounterRandom& random) {
  float* value = parameter.value.f32();
  const Count elements = parameter.elements();
  const auto deviation = static_cast<float>(parameter.init.scale);
  // One draw of the generator gives four normals.
  for_each_index(
      parameter.value.device(), "cohort::initial_values", (elements + 3) / 4, KOKKOS_LAMBDA(Count block) {
        const auto normals = random.normals(static_cast<std::uint64_t>(block));
        const Count end = 4 * block + 4 < elements ? 4 * block + 4 : elements;
        for (Count i = 4 * block; i < end; ++i) value[i] = deviation * normals[static_cast<std::size_t>(i - 4 * block)];
      });
}

void fill_uniform(const Parameter& parameter, const CounterRandom& random) {
  float* value = parameter.value.f32();
  const double half_width = parameter.init.scale;
  for_each_index(
      parameter.value.device(), "cohort::initial_values", parameter.elements(), KOKKOS_LAMBDA(Count i) {
        value[i] = static_cast<float>(half_width * (2.0 * random.uniform(static_cast<std::uint64_t>(i)) - 1.0));
      });
}

}  // namespace

void set_initial_values(const Parameter& parameter, std::uint64_t seed) {
  const CounterRandom random(seed, RandomPurpose::init, 0, static_cast<std::uint32_t>(parameter.id));
  switch (parameter.init.kind) {
    case InitSpec::Kind::zeros:
      return fill(parameter, 0.0f);
    case InitSpec::Kind::ones:
      return fill(parameter, 1.0f);
    case InitSpec::Kind::normal:
      return fill_normal(parameter, random);
    case InitSpec::Kind::uniform:
      return fill_uniform(parameter, random);
  }
}

}  // namespace cohort
