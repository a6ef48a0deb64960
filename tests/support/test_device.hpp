// Where a test computes: on the CPU, or, with COHORT_TEST_DEVICE=cuda in the environment, on a GPU. The same tests serve both.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/device_kind.hpp"
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "runtime/kokkos.hpp"

namespace cohort::test {

inline DeviceKind test_device() {
  const char* kind = std::getenv("COHORT_TEST_DEVICE");
  return kind != nullptr && std::string_view(kind) == "cuda" ? DeviceKind::gpu : DeviceKind::cpu;
}

/// The device under test as device.kind of a run file names it.
inline const char* test_device_key() { return test_device() == DeviceKind::gpu ? "cuda" : "cpu"; }

/// True if `ranks` ranks of this node have fewer GPUs than they are, so that some share one: NCCL refuses those, and their data
/// goes through the host.
inline bool ranks_share_devices(int ranks) { return test_device() == DeviceKind::gpu && gpu::visible_devices() < ranks; }

/// Kokkos and, if asked for, the GPU of number `local_rank` (modulo those that there are), for the life of the object.
class TestDevice {
 public:
  explicit TestDevice(int local_rank) {
    if (test_device() == DeviceKind::cpu) {
      start_kokkos(std::nullopt);
      return;
    }
    COHORT_CHECK(gpu::visible_devices() > 0, "COHORT_TEST_DEVICE=cuda: {}", gpu::why_no_device());
    const int index = local_rank % gpu::visible_devices();
    start_kokkos(index);
    gpu::open(index);
  }
  ~TestDevice() {
    gpu::close();
    stop_kokkos();
  }
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
};

}  // namespace cohort::test
