// NVTX: ranges that Nsight Systems and other NVIDIA profilers show. Without such a tool a range costs some nanoseconds.
#pragma once

#include <optional>

#include "observe/tracer.hpp"

namespace cohort::gpu {

/// Nothing in a build without CUDA.
std::optional<RangeTool> nvtx_range_tool();

}  // namespace cohort::gpu
