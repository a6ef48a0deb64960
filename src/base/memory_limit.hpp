// What the control groups of a process leave it of its machine's memory: a job of SLURM (`sbatch --mem`) or a container ends by
// SIGKILL, without a word, when it takes more, however much the machine has.
//
// Sources: Linux kernel documentation, admin-guide/cgroup-v2 ("Memory") and admin-guide/cgroup-v1/memory; cgroups(7).
#pragma once

#include <filesystem>
#include <string_view>

#include "base/machine.hpp"

namespace cohort {

/// `machine`, lowered to the tightest limit of the groups that a process is in, or that hold these. `groups` is what
/// /proc/self/cgroup says of it, `root` where the groups are mounted. Cached files count as available: they go before the process
/// does. A limit that is used up leaves a KiB, as no byte stands for "not known". What cannot be read limits nothing.
Memory within_control_groups(const Memory& machine, std::string_view groups,
                             const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace cohort
