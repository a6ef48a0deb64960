#include "base/memory_limit.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Names of the same things in the two versions of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive_files;  // in memory.stat, of the group and those below it
  const char* active_files;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};

// Nothing for the word "max", and of a file that is not there.
std::optional<Bytes> number_in(const fs::path& file) {
  std::ifstream stream(file);
  Bytes bytes = 0;
  return stream >> bytes ? std::optional(bytes) : std::nullopt;
}

Bytes cached_files(const fs::path& group, const GroupFiles& files) {
  std::ifstream stream(group / "memory.stat");
  Bytes cached = 0, bytes = 0;
  for (std::string key; stream >> key >> bytes;) {
    if (key == files.inactive_files || key == files.active_files) cached += bytes;
  }
  return cached;
}

void limit_by(const fs::path& group, const GroupFiles& files, Bytes of_machine, Memory& memory) {
  const std::optional<Bytes> limit = number_in(group / files.limit);
  if (!limit || *limit >= of_machine) return;  // version 1 says "none" by a number near 2^63
  const Bytes used = number_in(group / files.used).value_or(0) - cached_files(group, files);
  memory.total = std::min(memory.total, *limit);
  memory.available = std::max(kKiB, std::min(memory.available, *limit - used));
}

bool names_memory(const std::string& controllers) {
  const std::vector<std::string> names = split(controllers, ',');
  return std::find(names.begin(), names.end(), "memory") != names.end();
}

}  // namespace

// A line is NUMBER:CONTROLLERS:PATH, of version 2 with the number 0 and no controllers. Within a container the path may be one of
// the machine, and not be there: the container's own group is then what is mounted at the root.
Memory within_control_groups(const Memory& machine, std::string_view groups, const fs::path& root) {
  Memory memory = machine;
  for (const std::string& line : split(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = line.starts_with("0:") && controllers.empty();
    if (!version_2 && !names_memory(controllers)) continue;
    const fs::path top = version_2 ? root : root / "memory";
    fs::path group = (top / fs::path(line.substr(second + 1)).relative_path()).lexically_normal();
    for (;; group = group.parent_path()) {
      limit_by(group, version_2 ? kVersion2 : kVersion1, machine.total, memory);
      if (group.string().size() <= top.string().size()) break;
    }
  }
  return memory;
}

}  // namespace cohort
