// What graders are written with. A grader calls an exercise with inputs of its own, and rejects it with words that a learner can
// act on: which element, on which rank, which relation is broken; never how to write it.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace cohort::labs {

/// Why an exercise is not right, for its writer.
struct Rejected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  throw Rejected(fmt::format(format, std::forward<Args>(args)...));
}

/// The grading of one exercise.
class Grading {
 public:
  explicit Grading(std::function<void(const std::string&)> told) : told_(std::move(told)) {}

  /// From here on the exercise is called in this case, as "4 ranks, 10 elements": a crash, an endless loop and a rejection are
  /// told with it.
  void begin(std::string words) {
    case_ = std::move(words);
    if (told_) told_(case_);
  }
  const std::string& current_case() const { return case_; }

 private:
  std::function<void(const std::string&)> told_;
  std::string case_;
};

}  // namespace cohort::labs
