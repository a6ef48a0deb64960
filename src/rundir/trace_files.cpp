#include "rundir/trace_files.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string>

#include "checkpoint/store/folders.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string trace_name(int number) { return number == 1 ? "trace.json" : fmt::format("trace_{}.json", number); }

// Of a name; 0: of none.
int trace_number(std::string_view name) {
  if (name == trace_name(1)) return 1;
  constexpr std::string_view kBegin = "trace_";
  int number = 0;
  if (name.starts_with(kBegin)) std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), number);
  return number > 1 && name == trace_name(number) ? number : 0;
}

std::map<int, fs::path> numbered_traces(const fs::path& run_folder) {
  std::map<int, fs::path> found;
  for (const std::string& name : names_in(run_folder)) {
    if (const int number = trace_number(name); number > 0) found[number] = run_folder / name;
  }
  return found;
}

}  // namespace

bool is_trace_file(std::string_view name) { return trace_number(name) > 0; }

std::vector<fs::path> trace_files(const fs::path& run_folder) {
  std::vector<fs::path> files;
  for (const auto& [number, path] : numbered_traces(run_folder)) files.push_back(path);
  return files;
}

fs::path next_trace_file(const fs::path& run_folder) {
  const std::map<int, fs::path> found = numbered_traces(run_folder);
  return run_folder / trace_name(found.empty() ? 1 : found.rbegin()->first + 1);
}

}  // namespace cohort
