#include <nvtx3/nvToolsExt.h>

#include "gpu/nvtx_ranges.hpp"

namespace cohort::gpu {

std::optional<RangeTool> nvtx_range_tool() {
  return RangeTool{.push = [](const char* name) { nvtxRangePushA(name); }, .pop = [] { nvtxRangePop(); }};
}

}  // namespace cohort::gpu
