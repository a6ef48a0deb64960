// The second half of an average: the sum divided by the number of ranks, for backends whose library only sums.
#pragma once

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort {

/// data[i] <- data[i] / divisor, in the type's own arithmetic; bf16 and fp16 divide in fp32 and round once. Floating types only.
void divide(void* data, Count elements, DType dtype, int divisor);

}  // namespace cohort
