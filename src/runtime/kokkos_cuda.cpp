#include <Kokkos_Core.hpp>
#include <cstdlib>

#include "runtime/kokkos.hpp"

namespace cohort {
namespace {

using Host = Kokkos::DefaultHostExecutionSpace;

// Kokkos::initialize() starts every backend, and fails where no GPU is visible. A run on the CPU needs the host's alone: it works
// on nodes without GPUs, and many ranks do not each take memory of a GPU that none of them uses.
bool host_alone = false;

// Without advice on binding threads, which each rank would print: the launcher binds. The OpenMP backend gives it unless this
// variable is set, which OpenMP itself has read before main.
Kokkos::InitializationSettings quiet() {
  ::setenv("OMP_PROC_BIND", "false", 0);
  return Kokkos::InitializationSettings().set_disable_warnings(true);
}

}  // namespace

bool start_kokkos(std::optional<int> gpu) {
  if (Kokkos::is_initialized() || host_alone) return false;
  if (gpu) {
    Kokkos::initialize(quiet().set_device_id(*gpu));
  } else {
    Host::impl_initialize(quiet());
    host_alone = true;
  }
  return true;
}

void stop_kokkos() {
  if (host_alone) {
    Host::impl_finalize();
    host_alone = false;
  } else if (Kokkos::is_initialized()) {
    Kokkos::finalize();
  }
}

std::optional<RangeTool> kokkos_range_tool() {
  if (!Kokkos::Profiling::profileLibraryLoaded()) return std::nullopt;
  return RangeTool{.push = [](const char* name) { Kokkos::Profiling::pushRegion(name); },
                   .pop = [] { Kokkos::Profiling::popRegion(); }};
}

std::string kokkos_host_space() { return Kokkos::DefaultHostExecutionSpace::name(); }
std::string kokkos_default_space() { return Kokkos::DefaultExecutionSpace::name(); }

}  // namespace cohort
