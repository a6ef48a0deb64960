// What the kernel says of another process of this host.
#pragma once

#include <cstdint>
#include <string>

namespace cohort {

/// "stopped by a signal", "running", "no longer there"...; "" if it cannot be said.
std::string process_state(std::int64_t process);

}  // namespace cohort
