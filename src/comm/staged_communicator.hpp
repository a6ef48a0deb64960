// Device buffers over a communicator of host memory: each operation copies its data to the host, runs there, and copies the
// result back. For ranks that share a GPU, which NCCL refuses to connect; also the plainest way to see what a GPU-aware library
// saves.
//
// The host waits for the compute stream before an operation starts, and for the operation in Request::wait().
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// `host` must outlive it.
std::unique_ptr<Communicator> make_staged_communicator(Communicator& host, std::string name);

}  // namespace cohort
