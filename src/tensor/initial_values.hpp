// The initial values of parameters.
#pragma once

#include <cstdint>

#include "tensor/parameter.hpp"

namespace cohort {

/// Sets parameter.value by its InitSpec: a function of (seed, parameter id, global element index) alone.
void set_initial_values(const Parameter& parameter, std::uint64_t seed);

}  // namespace cohort
