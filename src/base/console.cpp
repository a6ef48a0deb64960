#include "base/console.hpp"

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/error.hpp"

namespace cohort {
namespace {

std::atomic<int> first_failure{0};  // the error number; 0: none that we have seen

void note_failure(int error) {
  int none = 0;
  first_failure.compare_exchange_strong(none, error);
}

}  // namespace

// The stream remembers that a write failed, however long ago, but not why: a failure inside of a print that nobody looked at has
// no reason.
void flush_console() {
  if (std::fflush(stdout) != 0) note_failure(errno);
  if (std::ferror(stdout) == 0) return;
  const int reason = first_failure.load();
  fail(ExitCode::io, "cannot write to standard output: {}; some output was lost",
       reason != 0 ? std::generic_category().message(reason) : "an earlier write failed");
}

void print_to_console(std::string_view text, std::FILE* out) noexcept {
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  if (!written && out == stdout) note_failure(errno);
}

}  // namespace cohort
