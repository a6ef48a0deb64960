// How much of the open device's free memory could be had in one piece.
#pragma once

#include "base/units.hpp"

namespace cohort::gpu {

/// The largest block that allocate() would give now: found by trying, so it knows of fragmentation, which memory() does not.
/// Takes some milliseconds and waits for the device; another process on the same device could be refused memory meanwhile. Throws
/// in builds without CUDA.
Bytes largest_allocation();

}  // namespace cohort::gpu
