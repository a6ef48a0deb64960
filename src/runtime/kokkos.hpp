// Kokkos's own bring-up and tear-down. Two implementations, one of which CMake picks: kokkos_host.cpp, and kokkos_cuda.cpp where
// Kokkos has the CUDA backend.
#pragma once

#include <optional>
#include <string>

#include "observe/tracer.hpp"

namespace cohort {

/// Starts Kokkos on the host and, if given, on the GPU of that number. Returns false if it was up already.
bool start_kokkos(std::optional<int> gpu);
/// Ends what start_kokkos began, or somebody else's Kokkos if it is up.
void stop_kokkos();

/// Regions of Kokkos Tools; nothing if no tool was loaded. After start_kokkos().
std::optional<RangeTool> kokkos_range_tool();

/// Names of the execution spaces of this build: "Serial", "Cuda".
std::string kokkos_host_space();
std::string kokkos_default_space();

}  // namespace cohort
