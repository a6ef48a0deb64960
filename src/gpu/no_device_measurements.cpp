// Builds without CUDA: there are no devices to measure.
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "gpu/links.hpp"
#include "gpu/memory_probe.hpp"

namespace cohort::gpu {

DeviceSpeeds measure_device(int, Bytes, const std::function<void()>&) { fail(ExitCode::launch, "{}", why_no_device()); }
bool has_peer_access(int, int) { fail(ExitCode::launch, "{}", why_no_device()); }
double measure_pair(int, int, Bytes) { fail(ExitCode::launch, "{}", why_no_device()); }
Bytes largest_allocation() { fail(ExitCode::launch, "{}", why_no_device()); }

}  // namespace cohort::gpu
