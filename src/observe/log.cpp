#include "observe/log.hpp"

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/file.hpp"
#include "observe/clock.hpp"

namespace cohort {

namespace {

// Of the log that was opened last: where log_error() writes.
struct LastLog {
  std::mutex mutex;
  std::filesystem::path path;
  int rank = 0;
};
LastLog& last_log() {
  static LastLog last;
  return last;
}

std::string line_of(LogLevel level, int rank, std::string_view message) {
  return fmt::format("{} {} rank {}: {}\n", utc_timestamp(), name_of(level), rank, message);
}

}  // namespace

std::string_view name_of(LogLevel level) {
  constexpr std::array<std::string_view, kLogLevels.size()> kNames{"debug", "info", "warning", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

LogLevel log_level_from_name(std::string_view name) {
  for (const LogLevel level : kLogLevels) {
    if (name_of(level) == name) return level;
  }
  fail(ExitCode::config, "unknown log level '{}'; choose debug, info, warning or error", name);
}

RankLog::RankLog(const std::filesystem::path& run_directory, int rank, LogLevel level, bool append)
    : path_(run_directory / "logs" / fmt::format("rank_{}", rank) / "train.log"), rank_(rank), level_(level) {
  make_folders(path_.parent_path());
  if (!append) std::ofstream(path_, std::ios::trunc);
  file_.open(path_, std::ios::app);  // each line goes to the end, also beside those of log_error()
  if (!file_) fail(ExitCode::io, "cannot write the log '{}': {}", path_.string(), std::strerror(errno));
  const std::lock_guard lock(last_log().mutex);
  last_log().path = path_;
  last_log().rank = rank_;
}

void RankLog::write(LogLevel level, std::string_view message) {
  const std::lock_guard lock(mutex_);
  file_ << line_of(level, rank_, message) << std::flush;
  if (!file_) fail(ExitCode::io, "cannot write the log '{}' (is the disk full?)", path_.string());
}

void log_error(std::string_view message) noexcept {
  try {
    const std::lock_guard lock(last_log().mutex);
    if (last_log().path.empty()) return;
    std::ofstream(last_log().path, std::ios::app) << line_of(LogLevel::error, last_log().rank, message) << std::flush;
  } catch (const std::exception&) {  // no memory for the line
  }
}

}  // namespace cohort
