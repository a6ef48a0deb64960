#include "watch/process_state.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace cohort {

std::string process_state(std::int64_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  if (!file) return std::ifstream("/proc/self/stat") ? "gone" : "";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(") ");  // proc(5): the name in parentheses may hold anything
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return "";
  switch (text[name_end + 2]) {
    case 'R':
      return "running";
    case 'S':
      return "asleep";
    case 'D':
      return "waiting for a disk or a network file system";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "dead";
    default:
      return "";
  }
}

}  // namespace cohort
