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

/// Grades the labs that were started in each folder of `folder`, a learner's each, and prints a table for a spreadsheet (CSV): a
/// line for each learner and exercise. Returns 0.
int collect(const std::string& folder, double limit);

}  // namespace cohort::labs
