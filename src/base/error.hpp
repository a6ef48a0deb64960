// Errors. Library code throws cohort::Error; main catches it once, prints one line and ends the job with the exit code below.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

/// What the process returns to the shell and to SLURM. docs/reference/exit-codes.md, written from meaning_of(), is for people;
/// scripts may rely on the numbers.
enum class ExitCode : int {
  success = 0,
  internal = 1,     // a broken invariant: a bug in Cohort
  usage = 2,        // the command line
  config = 3,       // the run file, or sizes in it that do not fit each other
  launch = 4,       // MPI, SLURM, devices: the job was started wrongly
  data = 5,         // token files and text
  checkpoint = 6,   // a checkpoint that is missing, damaged or of another model
  io = 7,           // a file that cannot be read or written
  training = 8,     // training itself failed: loss is not finite
  interrupted = 9,  // stopped by a signal; what was done is saved, if a step was: resume with --resume-if-any
  memory = 10,      // out of memory, of the device or of the host
  unequal =
      11,  // a layout did not train as one rank does, or not as it was planned; two checkpoints differ; an exercise is not right
  lost = 12,    // a rank was lost or stuck, and the job was ended
  stopped = 13  // RUN/stop asked for the end: saved as with 9, but not to be started again by a script
};

/// All of them, for lists: 0, 1, ... without gaps.
inline constexpr int kLastExitCode = static_cast<int>(ExitCode::stopped);

/// In words, for help and documentation: what happened and, where it is always the same, what to do.
std::string_view meaning_of(ExitCode code);

/// An error that a user can act on. `what()` says what was wrong and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// An error that every rank has learned of and throws alike (see comm/consensus.hpp): only rank 0 prints it, and no rank waits
/// for another, so the job ends without MPI_Abort.
class SharedError : public Error {
 public:
  using Error::Error;
};

/// Throws Error with a formatted message: fail(ExitCode::data, "{}: empty file", path).
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& message);

}  // namespace cohort

/// Checks an invariant of Cohort itself. On failure throws Error(internal) with the expression, file and line.
/// Use fail() for anything that a user can cause.
#define COHORT_CHECK(condition, ...)                                                                  \
  do {                                                                                                \
    if (!(condition)) ::cohort::fail_check(#condition, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
