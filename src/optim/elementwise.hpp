// What the kernels of optimizers share.
#pragma once

#include <span>
#include <vector>

#include "base/counting_listener.hpp"
#include "ops/parallel.hpp"
#include "optim/optimizer_kind.hpp"

namespace cohort {

/// The DecayRanges that a tensor of an update holds, wherever it lies; each is a launch, and there are a few of them.
inline std::vector<DecayRange> decay_ranges(const Tensor& ranges) {
  const Tensor here = ranges.to_host();
  const std::span all(reinterpret_cast<const DecayRange*>(here.data<std::uint8_t>()),
                      static_cast<std::size_t>(here.bytes()) / sizeof(DecayRange));
  return {all.begin(), all.end()};
}

inline const ops::OptimizerScalars* scalars_of(const Tensor& decisions) {
  return reinterpret_cast<const ops::OptimizerScalars*>(decisions.data<std::uint8_t>());
}

/// The copy that forward reads, where there is one beside the fp32 values.
KOKKOS_INLINE_FUNCTION void write_copy(float*, Count, float) {}
template <class T>
KOKKOS_INLINE_FUNCTION void write_copy(T* copy, Count i, float value) {
  copy[i] = from_float<T>(value);
}

}  // namespace cohort
