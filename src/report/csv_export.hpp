// A run's metrics as CSV (RFC 4180, with a header), for spreadsheets and for tools that read nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

struct CsvFile {
  std::string name;    // "steps.csv"
  std::string source;  // "metrics.jsonl"
};
/// What is written of a run that has all of it:
///   steps.csv   a row a step: step, time, and every number of metrics.jsonl, "seconds.forward" of what is in objects
///   ranks.csv   a row a rank and report: step, rank, own_work, times, memory
///   layers.csv  a row a layer, step and kind of values: step, layer, values, norm, elements, zeros, not_finite
/// What a record does not have is empty; numbers that are not finite are nan, inf and -inf.
std::vector<CsvFile> csv_files(const std::filesystem::path& run_folder);

/// Writes one of them, of a run folder in whatever state, to `to`: what is wrong with the source goes into `notes`, in whole
/// sentences, and the rest is written. However long the run is, a line of it is in memory. Throws Error(io).
void write_csv(const std::filesystem::path& run_folder, const CsvFile& file, const std::filesystem::path& to,
               std::vector<std::string>& notes);

}  // namespace cohort
