// Kokkos's execution spaces for our two kinds of device, and the loop that runs on either. Only sources that nvcc compiles where
// Kokkos has the CUDA backend (KOKKOS_SOURCES in CMake) may include this.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <type_traits>

#include "base/counting.hpp"
#include "base/device_kind.hpp"
#include "base/units.hpp"
#include "gpu/device.hpp"

namespace cohort {

using HostSpace = Kokkos::DefaultHostExecutionSpace;
/// CUDA if Kokkos has it, else the host again.
using DeviceSpace = Kokkos::DefaultExecutionSpace;
inline constexpr bool kHasDeviceSpace = !std::is_same_v<HostSpace, DeviceSpace>;

/// The device space on the compute stream.
const DeviceSpace& device_space();

/// body(i) for each i in [0, n), on the device or on the host. `label` begins with "cohort::". On the device each index is a
/// thread's, so neighbouring indices should touch neighbouring memory.
template <class Body>
void for_each_index(DeviceKind device, const std::string& label, Count n, const Body& body) {
  if (counting()) return;
  if constexpr (kHasDeviceSpace) {
    if (device == DeviceKind::gpu) {
      Kokkos::parallel_for(label, Kokkos::RangePolicy<DeviceSpace, Kokkos::IndexType<Count>>(device_space(), 0, n), body);
      return;
    }
  }
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostSpace, Kokkos::IndexType<Count>>(0, n), body);
}

}  // namespace cohort
