// What `cohort eval` has measured, on the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/evaluate.hpp"

namespace cohort {

/// A checkpoint with its figures.
struct Measured {
  std::string checkpoint;  // as the user named it, or its run
  Count step = 0;
  std::string source;  // the data set, or the file of questions
  bool is_text = false;
  Evaluation evaluation;
};

/// "step 400: validation loss ..." of one, a table of several.
std::string as_text(const Measured& measured);
std::string as_text(const std::vector<Measured>& several);
nlohmann::ordered_json as_json(const Measured& measured);

}  // namespace cohort
