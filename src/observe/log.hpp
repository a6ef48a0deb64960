// The log of one rank: <run>/logs/rank_N/train.log, a line per event. Every rank has its own file, so that no line of one rank is
// cut by another's and the console stays rank 0's.
#pragma once

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

/// error: what ended the run; only by log_error().
enum class LogLevel { debug, info, warning, error };
inline constexpr std::array<LogLevel, 4> kLogLevels{LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error};

/// "debug", "info", "warning", "error".
std::string_view name_of(LogLevel level);

/// The inverse, of log.level in a run file (where error is not a choice: it is always written) and of --level; throws
/// Error(config) on an unknown name.
LogLevel log_level_from_name(std::string_view name);

/// Lines read "2025-03-01T12:00:00.250Z info rank 3: message". Each is flushed when written, so that the last line before a crash
/// is there. Methods may be called from several threads. A line that cannot be written (disk full) throws Error(io).
class RankLog {
 public:
  /// Creates the folders. `append`: keep what an earlier part of the run wrote (resume); else the file starts empty.
  RankLog(const std::filesystem::path& run_directory, int rank, LogLevel level, bool append);

  const std::filesystem::path& path() const { return path_; }

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    if (level_ <= LogLevel::debug) write(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    if (level_ <= LogLevel::info) write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write(LogLevel level, std::string_view message);

  std::filesystem::path path_;
  int rank_;
  LogLevel level_;
  std::mutex mutex_;
  std::ofstream file_;
};

/// Adds `message` to the log that this process opened last, whether that is open still or not: where an error is reported the
/// objects of the run are gone. Nothing if there was no log, or it cannot be written: the error is said on the console, too.
void log_error(std::string_view message) noexcept;

}  // namespace cohort
