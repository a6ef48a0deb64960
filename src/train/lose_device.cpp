#include "train/lose_device.hpp"

#include <cstdint>

#include "tensor/spaces.hpp"

namespace cohort {

void lose_device() {
  // In the first page, which no allocation lies in; through a volatile, so that no compiler sees through it.
  volatile std::uintptr_t first_page = 64;
  const std::uintptr_t nowhere = first_page;
  for_each_index(  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the fault
      DeviceKind::gpu, "cohort::lose_device", 1, KOKKOS_LAMBDA(Count i) { *reinterpret_cast<volatile Count*>(nowhere) = i; });
}

}  // namespace cohort
