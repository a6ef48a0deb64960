// One message of a rank log, as RankLog (observe/log.hpp) writes it: "2025-03-01T12:00:00.250Z info rank 3: message", and the
// lines after it that begin otherwise, which belong to the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "observe/log.hpp"

namespace cohort {

/// What comes before the message.
struct LogHeader {
  std::int64_t time = 0;  // milliseconds since 1970, UTC
  LogLevel level = LogLevel::info;
  std::size_t length = 0;  // of the header: where the message begins
};

/// The header of a line; nothing if the line has none.
std::optional<LogHeader> parse_header(std::string_view line);

struct LogRecord {
  std::int64_t time = 0;
  LogLevel level = LogLevel::info;
  int rank = 0;             // whose log it is in
  std::string text{};       // the lines, each with its newline
  std::size_t message = 0;  // where in `text` the message begins

  /// The message, without the last newline.
  std::string_view what() const;
};

/// The step that a message speaks of: 12 for "step 12 loss 3.1" and "(steps 12 to 20)", the first if there are several.
std::optional<Count> step_in(std::string_view message);

/// A time as in the logs, all of "2025-03-01T12:00:00.250Z".
struct ParsedTime {
  std::int64_t milliseconds = 0;               // since 1970, UTC
  std::size_t fault = std::string_view::npos;  // index of the first character that cannot be; npos: none
};
ParsedTime parse_time(std::string_view text);

}  // namespace cohort
