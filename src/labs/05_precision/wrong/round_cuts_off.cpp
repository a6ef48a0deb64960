// round_to_bf16: to cut off the lower 16 bits is to round towards zero
#include <bit>
#include <cohort/lab05_precision.hpp>
#include <cstdint>

// The upper half, as it is.
std::uint16_t round_to_bf16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }
