// What the kernel tells of this machine: machine_linux.cpp reads /proc, machine_darwin.cpp asks sysctl.
#pragma once

#include <string>

#include "base/units.hpp"

namespace cohort {

/// Another one after each start of the machine; "" if this system does not say.
std::string boot_id();
/// The namespaces of this process: two processes of one boot see the same process numbers, or the same loopback, where these are
/// equal. "" if this system does not say.
std::string process_namespace();
std::string network_namespace();

/// "unknown" where the kernel gives no name, as on ARM.
std::string cpu_model();

/// The second-level cache of a core, in bytes; 0 if this system does not say.
Bytes second_level_cache();

struct Memory {
  Bytes total = 0;  // 0 = not known, here and below
  Bytes available = 0;
};
/// Of this machine; if this process may have less (base/memory_limit.hpp), of that.
Memory machine_memory();

}  // namespace cohort
