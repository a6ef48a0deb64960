// The traces of a run (train/trace_file.hpp): RUN/trace.json, then RUN/trace_2.json, RUN/trace_3.json, ... in the order in which
// they were written. None replaces another.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace cohort {

/// Whether a file of this name is one.
bool is_trace_file(std::string_view name);
/// Those that are there, the oldest first.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& run_folder);
/// The name of the next one.
std::filesystem::path next_trace_file(const std::filesystem::path& run_folder);

}  // namespace cohort
