// What a process can say of its node without measuring: versions, memory, limits, networks.
#pragma once

#include <string>

#include "preflight/measurements.hpp"
#include "runtime/runtime.hpp"

namespace cohort::preflight {

/// Fills all of a node that needs neither GPUs nor other ranks. `program` is the version of Cohort.
Node describe_node(const Runtime& runtime, const std::string& program);

/// "400 Gb/sec (4X NDR)" and so on of the active ports below `folder`, which is laid out as the kernel's /sys/class/infiniband.
std::vector<std::string> active_ports(const std::string& folder);

}  // namespace cohort::preflight
