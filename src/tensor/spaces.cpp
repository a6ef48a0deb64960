#include "tensor/spaces.hpp"

#include <optional>

namespace cohort {
namespace {

template <class Space>
Space on_compute_stream() {
  if constexpr (std::is_constructible_v<Space, gpu::Stream>) {
    return Space(gpu::compute_stream());
  } else {
    return Space();
  }
}

}  // namespace

const DeviceSpace& device_space() {
  // Making one is dear, so there is one; it must be gone before Kokkos ends.
  static std::optional<DeviceSpace> space;
  if (!space) {
    space = on_compute_stream<DeviceSpace>();
    Kokkos::push_finalize_hook([] { space.reset(); });
  }
  return *space;
}

}  // namespace cohort
