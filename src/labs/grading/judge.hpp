// Grades an exercise in a process of its own, so that a crash, an endless loop or a deadlock in it costs nothing but a message.
#pragma once

#include <filesystem>
#include <string>

#include "labs/labs.hpp"

namespace cohort::labs {

struct Verdict {
  enum class Result { passed, rejected, not_written, crashed, hung };
  Result result = Result::passed;
  std::string message;  // "" if it passed
};

/// "passed", "not right", "not written yet", "crashed", "hangs".
std::string_view name_of(Verdict::Result result);

struct Judging {
  double limit = 20.0;    // seconds for one exercise
  std::string preloaded;  // see sanitizer_library()
};

/// What the exercise of this library comes to. What it prints goes to standard error.
Verdict judge(const Lab& lab, std::size_t exercise, const std::filesystem::path& library, const Judging& how);

/// What the process does that judge() starts: `cohort lab grade LAB EXERCISE LIBRARY`, with a pipe as file descriptor 3.
int grade_for_judge(const Lab& lab, std::size_t exercise, const std::filesystem::path& library);

/// The grading itself, in this process. A crash of the exercise is one of the process.
Verdict grade_here(const Lab& lab, std::size_t exercise, const Library& library, Grading& grading);

}  // namespace cohort::labs
