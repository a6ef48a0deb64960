// Which cores a process may run on, and whether the ranks of a node get in each other's way. A "core" here is what the kernel
// schedules on: a hardware thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// The cores that this process may run on, ascending. Throws Error(launch) if the kernel does not say.
std::vector<int> allowed_cores();
/// The cores of this machine that are switched on.
int online_cores();

/// {0, 1, 2, 3, 8} -> "0-3,8"; {} -> "none".
std::string cores_text(const std::vector<int>& cores);
/// The inverse. Throws Error(internal): only this program writes such text.
std::vector<int> parse_cores(std::string_view text);

/// Where one rank is bound.
struct Binding {
  int rank = 0;
  int node = 0;
  std::string host;
  std::vector<int> cores;  // ascending
  int online = 0;          // cores of its machine
};

struct BindingFindings {
  std::vector<std::string> warnings;  // the run will be slower than it need be
  std::vector<std::string> notes;     // ranks share cores, and no binding would help: there are enough of them, or no more
};

/// Looks at the bindings of all ranks, node by node. Ranks with the same cores are a group: it is warned of if it has fewer cores
/// than ranks, unless these are all that the machine has. Groups whose cores overlap in part are warned of. Ranks that are free
/// to use the whole machine are never an overlap.
BindingFindings check_bindings(const std::vector<Binding>& bindings);

}  // namespace cohort
