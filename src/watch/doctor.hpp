// What became of a job, read from what it left in its run folder: the errors in the ranks' logs, the verdict of the monitor, the
// dumps of the ranks' flight recorders or what these kept of ranks that were killed, and, where a job was ended from outside and
// left no verdict, the ends of the rank logs.
#pragma once

#include <filesystem>
#include <string>

namespace cohort {

/// A page for a terminal: the verdict, what each rank was doing, and the last operations of the ranks that differ. Throws
/// Error(io) if there is no such folder, or a file in it cannot be read or is damaged, naming the file.
std::string examine(const std::filesystem::path& run_folder);

}  // namespace cohort
