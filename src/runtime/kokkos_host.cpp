#include <Kokkos_Core.hpp>

#include "base/error.hpp"
#include "runtime/kokkos.hpp"

namespace cohort {

bool start_kokkos(std::optional<int> gpu) {
  COHORT_CHECK(!gpu, "this Kokkos has no CUDA");
  if (Kokkos::is_initialized()) return false;
  Kokkos::initialize();
  return true;
}

void stop_kokkos() {
  if (Kokkos::is_initialized()) Kokkos::finalize();
}

std::optional<RangeTool> kokkos_range_tool() {
  if (!Kokkos::Profiling::profileLibraryLoaded()) return std::nullopt;
  return RangeTool{.push = [](const char* name) { Kokkos::Profiling::pushRegion(name); },
                   .pop = [] { Kokkos::Profiling::popRegion(); }};
}

std::string kokkos_host_space() { return Kokkos::DefaultHostExecutionSpace::name(); }
std::string kokkos_default_space() { return Kokkos::DefaultExecutionSpace::name(); }

}  // namespace cohort
