#include "rundir/fault_marks.hpp"

#include <fmt/format.h>

#include <regex>

namespace cohort {

std::filesystem::path mark_of_fault(const FaultSection& fault, const std::filesystem::path& run_folder) {
  return run_folder / "faults" / fmt::format("{}.rank{}.step{}.{}", fault.kind, fault.rank, fault.step, fault.phase);
}

bool has_been(const FaultSection& fault, const std::filesystem::path& run_folder) {
  return fault.once && std::filesystem::exists(mark_of_fault(fault, run_folder));
}

bool is_mark_of_fault(const std::string& name) {
  static const std::regex kName(R"([a-z]+\.rank\d+\.step\d+\.[a-z]+)");
  return std::regex_match(name, kName);
}

}  // namespace cohort
