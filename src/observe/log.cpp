#include "observe/log.hpp"

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/file.hpp"
#include "observe/clock.hpp"

namespace cohort {

std::string_view name_of(LogLevel level) {
  constexpr std::array<std::string_view, kLogLevels.size()> kNames{"debug", "info", "warning"};
  return kNames[static_cast<std::size_t>(level)];
}

LogLevel log_level_from_name(std::string_view name) {
  for (const LogLevel level : kLogLevels) {
    if (name_of(level) == name) return level;
  }
  fail(ExitCode::config, "unknown log level '{}'; known are debug, info, warning", name);
}

RankLog::RankLog(const std::filesystem::path& run_directory, int rank, LogLevel level, bool append)
    : path_(run_directory / "logs" / fmt::format("rank_{}", rank) / "train.log"), rank_(rank), level_(level) {
  make_folders(path_.parent_path());
  file_.open(path_, append ? std::ios::app : std::ios::trunc);
  if (!file_) fail(ExitCode::io, "cannot write the log '{}': {}", path_.string(), std::strerror(errno));
}

void RankLog::write(LogLevel level, std::string_view message) {
  const std::lock_guard lock(mutex_);
  file_ << fmt::format("{} {} rank {}: {}\n", utc_timestamp(), name_of(level), rank_, message) << std::flush;
  if (!file_) fail(ExitCode::io, "cannot write the log '{}' (is the disk full?)", path_.string());
}

}  // namespace cohort
