// A learner's folder: a folder for each lab that was started, and what has been reached.
//   labs/03_collectives/exercise.cpp    the learner's file; Cohort never writes over it
//   labs/progress.json                  what has passed, which hints were read, which questions were answered, which solutions
//   were looked at
#pragma once

#include <filesystem>
#include <string>

#include "labs/grading/judge.hpp"
#include "labs/labs.hpp"

namespace cohort::labs {

/// What is known of an exercise.
struct Progress {
  std::string passed;  // when it passed first, as "2026-11-30T10:15:00Z"; "": not yet
  int hints = 0;       // how many were read
};

class Workplace {
 public:
  /// `given`, else the environment's COHORT_LABS, else "labs". Nothing is made.
  explicit Workplace(const std::string& given);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path folder_of(const Lab& lab) const { return root_ / lab.folder; }
  std::filesystem::path exercise_of(const Lab& lab) const { return folder_of(lab) / "exercise.cpp"; }
  bool has_started(const Lab& lab) const;
  /// Throws Error(usage), with the command that starts it, if it was not started.
  void require_started(const Lab& lab) const;

  /// Copies exercise, handout and its figures into the lab's folder. Throws Error(usage) if there is an exercise already;
  /// Error(io).
  void start(const Lab& lab) const;
  /// Begins again: the learner's file gets another name, which is returned, and stays. Throws Error(io).
  std::filesystem::path reset(const Lab& lab) const;
  /// Of the file as it is now; see compile_exercise().
  std::filesystem::path compile(const Lab& lab, bool sanitized) const;

  Progress progress_of(const Lab& lab, std::size_t exercise) const;
  bool has_given_up(const Lab& lab) const;
  /// Keep what happened, in progress.json. Throws Error(io); Error(data) if the file is damaged: it stays as it is.
  void passed(const Lab& lab, std::size_t exercise) const;
  void read_hint(const Lab& lab, std::size_t exercise, int number) const;
  void gave_up(const Lab& lab) const;
  /// A question, as "3.q1", was answered rightly.
  void answered(const Lab& lab, const std::string& question) const;
  bool has_answered(const Lab& lab, const std::string& question) const;

 private:
  std::filesystem::path root_;
};

}  // namespace cohort::labs
