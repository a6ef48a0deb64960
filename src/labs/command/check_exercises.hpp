// What `cohort lab check` and `cohort lab collect` do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labs/labs.hpp"
#include "labs/workplace/workplace.hpp"

namespace cohort::labs {

struct CheckOptions {
  std::string lab;  // "3", "3.2", or "" with `all`
  bool all = false;
  bool json = false;
  bool sanitize = false;
  double limit = 20.0;
  std::string folder;  // --dir
};

/// The labs, or the one exercise, that options.lab and options.all name.
struct Selection {
  const Lab* lab = nullptr;
  std::optional<std::size_t> exercise;  // none: all of the lab
};
/// "3" or "3.2". Throws Error(usage).
Selection selected(const std::string& words);

/// Grades, prints, and keeps what has passed. Returns 0 if all is right, else 11.
int check(const CheckOptions& options);

struct CollectOptions {
  std::string folder;  // that has a learner's folder for each learner
  std::string share;   // "2/8": the second of eight shares of the learners; "": all
  double limit = 20.0;
};

/// Grades the labs that were started in each folder of `folder`, or of its share, and prints a table for a spreadsheet (CSV): a
/// line for each learner and exercise. Each learner is in one of the shares of a number. Returns 0; throws Error(usage) for a
/// share that there is not.
int collect(const CollectOptions& options);

}  // namespace cohort::labs
