// The axes of the mesh of ranks. "Axis" is always one of these; a tensor has "dims".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cohort {

/// In the order in which they vary, fastest first: tensor-parallel ranks are neighbours, so they stay on one node.
enum class Axis : std::uint8_t { tp, cp, dp, pp };

inline constexpr std::array<Axis, 4> kAxes{Axis::tp, Axis::cp, Axis::dp, Axis::pp};

constexpr std::string_view name_of(Axis axis) {
  constexpr std::array<std::string_view, 4> kNames{"tp", "cp", "dp", "pp"};
  return kNames[static_cast<std::size_t>(axis)];
}

}  // namespace cohort
