// Units: sizes are typed or named. A Count is a number of elements, Bytes a number of bytes; both are signed and 64 bits wide
// so that a difference never wraps and a tensor of more than 2^31 elements never goes negative.
#pragma once

#include <cstdint>

namespace cohort {

using Count = std::int64_t;
using Bytes = std::int64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

}  // namespace cohort
