// What `cohort logs` shows: the merged logs, the last of them if so asked, and what comes later.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "base/units.hpp"
#include "logs/selection.hpp"

namespace cohort {

struct LogViewOptions {
  std::filesystem::path run;
  LogSelection selection{};
  std::optional<Count> last{};  // the last so many of the existing messages; nothing: all
  bool fold = false;            // see logs/deduplicate.hpp
  bool follow = false;          // follow until `ended`
};

/// Hands each message, whole lines, to `print`. When following, what comes between two looks (several a second, fewer where there
/// are very many logs) is put in order; `ended` is asked between messages. Throws Error(io): there is no such folder, or no log
/// in it; Error(usage): a rank that has no log, which is waited for when following.
void show_logs(const LogViewOptions& options, const std::function<void(std::string_view)>& print,
               const std::function<bool()>& ended);

}  // namespace cohort
