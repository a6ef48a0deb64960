#include "tensor/initial_values.hpp"

#include "base/random.hpp"
#include "tensor/spaces.hpp"

namespace cohort {
namespace {

void fill(const Tensor& values, float constant) {
  float* value = values.f32();
  for_each_index(
      values.device(), "cohort::initial_values", values.elements(), KOKKOS_LAMBDA(Count i) { value[i] = constant; });
}

void fill_normal(const Tensor& values, const BoxMap& map, Count begin, float deviation, const CounterRandom& random) {
  float* value = values.f32();
  const Count elements = values.elements();
  // One draw of the generator gives the normals of four neighbours in the whole tensor; they mostly are neighbours here, too.
  for_each_index(
      values.device(), "cohort::initial_values", (elements + 3) / 4, KOKKOS_LAMBDA(Count group) {
        const Count end = 4 * group + 4 < elements ? 4 * group + 4 : elements;
        Count drawn = -1;
        std::array<float, 4> normals{};
        for (Count i = 4 * group; i < end; ++i) {
          const Count index = map.global(begin + i);
          if (index / 4 != drawn) {
            drawn = index / 4;
            normals = random.normals(static_cast<std::uint64_t>(drawn));
          }
          value[i] = deviation * normals[static_cast<std::size_t>(index % 4)];
        }
      });
}

void fill_uniform(const Tensor& values, const BoxMap& map, Count begin, double half_width, const CounterRandom& random) {
  float* value = values.f32();
  for_each_index(
      values.device(), "cohort::initial_values", values.elements(), KOKKOS_LAMBDA(Count i) {
        const auto index = static_cast<std::uint64_t>(map.global(begin + i));
        value[i] = static_cast<float>(half_width * (2.0 * random.uniform(index) - 1.0));
      });
}

}  // namespace

void set_initial_values(const Tensor& values, const Parameter& parameter, Count begin, std::uint64_t seed) {
  const CounterRandom random(seed, RandomPurpose::init, 0, static_cast<std::uint32_t>(parameter.id));
  const BoxMap map(parameter.global_shape, parameter.box());
  switch (parameter.init.kind) {
    case InitSpec::Kind::zeros:
      return fill(values, 0.0f);
    case InitSpec::Kind::ones:
      return fill(values, 1.0f);
    case InitSpec::Kind::normal:
      return fill_normal(values, map, begin, static_cast<float>(parameter.init.scale), random);
    case InitSpec::Kind::uniform:
      return fill_uniform(values, map, begin, parameter.init.scale, random);
  }
}

}  // namespace cohort
