// A part of a matrix, as a rank holds it (base/box.hpp), to its place in the whole and back.
#pragma once

#include "base/box.hpp"
#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// whole[map.global(begin + i)] = part[i]: elements from `begin` on of the map's box. Both fp32. Moves 8 bytes an element.
void put_part(const Exec& exec, const Tensor& whole, const BoxMap& map, Count begin, const Tensor& part);

/// part[i] = whole[map.global(begin + i)].
void take_part(const Exec& exec, const Tensor& part, const Tensor& whole, const BoxMap& map, Count begin);

}  // namespace cohort::ops
