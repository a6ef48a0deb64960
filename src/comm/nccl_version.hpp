// NCCL's version, on all ranks: NCCL refuses to join ranks with different libraries, with a message that does not name them.
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// 22803 -> "2.28.3": NCCL's own code for versions, of 2.9 and later.
std::string nccl_version_text(int code);

/// Throws SharedError(launch), naming the first rank and host that differs and both versions, unless all ranks give the same.
// Collective over: host
void check_nccl_versions(Communicator& host, int code);

}  // namespace cohort
