#include "ops/matrix_part.hpp"

#include "base/counting_listener.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {

void put_part(const Exec& exec, const Tensor& whole, const BoxMap& map, Count begin, const Tensor& part) {
  float* to = whole.f32();
  const float* from = part.f32();
  note_traffic("put_part", DType::f32, 2 * part.bytes());
  for_each_index(
      exec.device, "cohort::put_part", part.elements(), KOKKOS_LAMBDA(Count i) { to[map.global(begin + i)] = from[i]; });
}

void take_part(const Exec& exec, const Tensor& part, const Tensor& whole, const BoxMap& map, Count begin) {
  float* to = part.f32();
  const float* from = whole.f32();
  note_traffic("take_part", DType::f32, 2 * part.bytes());
  for_each_index(
      exec.device, "cohort::take_part", part.elements(), KOKKOS_LAMBDA(Count i) { to[i] = from[map.global(begin + i)]; });
}

}  // namespace cohort::ops
