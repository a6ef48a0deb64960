// How the values of a tensor are distributed: a histogram over half octaves, and their sum of squares. Made for looking at
// weights, gradients and activations of any size, fast enough to do it during training; the figures of parts of a tensor, on any
// ranks, add up to those of the whole.
#pragma once

#include <cstdint>

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// Bin i of magnitudes holds [2^e, 1.5 2^e) for even i and [1.5 2^e, 2^(e+1)) for odd i, with e = kLowestExponent + i / 2. Two
/// bins an octave are the exponent and the first bit of the mantissa, which cost no logarithm. What is smaller counts as zero,
/// what is larger is in the last bin.
inline constexpr int kLowestExponent = -48, kOctaves = 64;
inline constexpr int kMagnitudes = 2 * kOctaves;

/// Places of the figures in a tensor [kValueFigures] (fp64, in which counts up to 2^53 are exact): negative values by rising
/// magnitude, positive ones likewise, and
inline constexpr int kPositive = kMagnitudes, kZeros = 2 * kMagnitudes, kNotFinite = kZeros + 1, kSquares = kZeros + 2;
inline constexpr Count kValueFigures = kSquares + 1;

/// The least magnitude in bin `magnitude`; of kMagnitudes, the end of the last one.
double magnitude_of_bin(int magnitude);

/// figures += those of factor * x, where x is fp32, bf16 or fp16. The counts do not depend on the order of the elements, the sum
/// of squares (of factor * x in fp32, summed in double precision) is made in a fixed order. Moves x twice.
void add_value_figures(const Exec& exec, const Tensor& figures, const Tensor& x, float factor = 1.0f);

}  // namespace cohort::ops
