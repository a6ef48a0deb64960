// The initial values of parameters.
#pragma once

#include <cstdint>

#include "tensor/parameter.hpp"

namespace cohort {

/// Sets `values` (fp32) to the initial values of elements begin, begin + 1, ... of this rank's part of the parameter: a function
/// only of (seed, parameter id, element index in the whole tensor), whatever the layout.
void set_initial_values(const Tensor& values, const Parameter& parameter, Count begin, std::uint64_t seed);

}  // namespace cohort
