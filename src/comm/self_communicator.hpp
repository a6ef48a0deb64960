// The group of one rank: every collective is a copy or nothing. Needs no MPI, so that one rank can train without a launcher.
// On device memory the copy runs on the compute stream.
#pragma once

#include <memory>
#include <string>

#include "base/device_kind.hpp"
#include "comm/communicator.hpp"

namespace cohort {

/// `memory` is where all buffers of its operations lie.
std::unique_ptr<Communicator> make_self_communicator(std::string name, DeviceKind memory = DeviceKind::cpu);

}  // namespace cohort
