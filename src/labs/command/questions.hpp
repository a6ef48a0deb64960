// The questions of a lab. Some ask for a number, which is compared with a formula's; the others are for thinking and talking.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "labs/labs.hpp"
#include "labs/workplace/workplace.hpp"

namespace cohort::labs {

struct AskedQuestion {
  std::string name;                   // "3.q1"
  std::string text;                   // as it stands in questions.md
  std::string answer;                 // the same, behind "Answer: "
  const Question* numeric = nullptr;  // null: no number is asked for
};

/// Of the lab's questions.md: below each heading "## 3.q1" the question, then a paragraph "Answer: ...". Throws Error(io);
/// Error(internal) if the file is not so, or if the lab names a numeric question that the file lacks.
std::vector<AskedQuestion> questions_of(const Lab& lab);

struct AskOptions {
  std::string question;         // "3": all of lab 3; "3.q1"
  std::optional<double> value;  // the learner's answer
  bool answer = false;          // show the answer
  bool json = false;
  std::string folder;  // --dir
};

/// Prints questions, or says whether a number is right: then with the explanation. Returns 0, or 11 if it is not right.
int ask(const AskOptions& options);

}  // namespace cohort::labs
