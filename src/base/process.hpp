// What the kernel tells of the processes of this machine: process_linux.cpp asks /proc, process_darwin.cpp asks sysctl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

struct ProcessFacts {
  enum class State { running, asleep, waits_for_disk, stopped, traced, dead, unknown };
  State state = State::unknown;  // dead: ended, and its parent has not asked for its exit code yet
  std::int64_t parent = 0;
  std::string name;   // of its program, cut off after 15 characters
  std::string began;  // when, as the kernel counts: tells it from another process that had its number before
};

/// Nothing if there is no such process, or it is hidden from us.
std::optional<ProcessFacts> process_facts(std::int64_t process);
/// The numbers of all processes that can be seen.
std::vector<std::int64_t> visible_processes();
/// NAME=VALUE, each ended by a zero byte: the environment that the process was started with. "" where it cannot be read, as that
/// of another user's.
std::string environment_at_start(std::int64_t process);
/// Whether the standard output of a process is a terminal; false where that cannot be said.
bool writes_to_terminal(std::int64_t process);

/// Memory of the host that this process has in use (its resident set); 0 where that cannot be said.
Bytes resident_memory();

/// The file of the running program. Throws Error(io).
std::filesystem::path program_file();

}  // namespace cohort
