// Rank logs for tests, written line by line.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "logs/line.hpp"

namespace cohort::test {

/// A line as RankLog writes it, `seconds` (below 60) after noon.
inline std::string line(double seconds, int rank, std::string_view message, std::string_view level = "info") {
  return fmt::format("2025-03-01T12:00:{:06.3f}Z {} rank {}: {}\n", seconds, level, rank, message);
}

/// The same as a record.
inline LogRecord record(double seconds, int rank, std::string_view message, std::string_view level = "info") {
  LogRecord made{.rank = rank, .text = line(seconds, rank, message, level)};
  const auto header = parse_header(made.text);
  made.time = header->time;
  made.level = header->level;
  made.message = header->length;
  return made;
}

inline std::filesystem::path log_path(const std::filesystem::path& run, int rank) {
  return run / "logs" / fmt::format("rank_{}", rank) / "train.log";
}

/// Adds text to the log of a rank.
inline void append(const std::filesystem::path& run, int rank, std::string_view text) {
  std::filesystem::create_directories(log_path(run, rank).parent_path());
  std::ofstream(log_path(run, rank), std::ios::app | std::ios::binary) << text;
}

}  // namespace cohort::test
