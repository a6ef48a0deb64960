// The labs of the course. A lab is a folder NN_name/ beside this file, with a file grader.cpp that describes it; CMake finds the
// folders. In a lab's folder:
//   handout.md      what a learner reads             exercise.cpp   what a learner begins with
//   hints.md        hints, from a nudge to the idea  solution.cpp   one way to write it
//   questions.md    questions with their answers     wrong/*.cpp    what learners write at first; each must be
//   grader.cpp      lab(): how all is graded                        rejected with the words in its first line
// and in include/cohort/ the header with the exercises' contracts. All but graders and wrong solutions is installed in
// PREFIX/share/cohort/labs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "labs/grading/grading.hpp"
#include "labs/workplace/exercise_library.hpp"

namespace cohort::labs {

struct Exercise {
  std::string_view name;                                // of the function
  std::string_view task;                                // in a line
  std::function<void(const Library&, Grading&)> grade;  // throws Rejected, or what the exercise throws
  std::function<void(const Library&)> use = nullptr;    // lets a real run call the function; null: no run has a use for it
  std::string_view purpose = {};                        // of several for one purpose a run uses the last
};

/// A question of questions.md whose answer is a number, in the unit that the question asks for.
struct Question {
  std::string_view name;          // "q1"
  std::function<double()> value;  // by the formula that the answer explains
  double tolerance = 0.02;        // relative: how a learner may round
};

struct Lab {
  int number = 0;
  std::string_view folder;  // "03_collectives"
  std::string_view title;
  int minutes = 0;                 // that the required part takes a learner
  std::string_view run_file = {};  // of `cohort lab run`, below inputs/; "": this lab has no training
  int ranks = 1;                   // that train it
  std::vector<Exercise> exercises;
  std::vector<Question> questions = {};

  /// Its header's name below include/cohort: "lab03_collectives.hpp".
  std::string header() const { return fmt::format("lab{}.hpp", folder); }
  /// "3.2".
  std::string number_of(std::size_t exercise) const;
};

/// By number.
const std::vector<const Lab*>& all_labs();
/// Throws Error(usage) that names the labs.
const Lab& lab_numbered(const std::string& number);

/// Where the labs' files are, and the run files: PREFIX/share/cohort/labs and .../inputs, or src/labs and inputs of the tree that
/// the program was built in. Throws Error(io).
std::filesystem::path labs_folder();
std::filesystem::path inputs_folder();

/// The lab's handout, without the comments that its test reads. Throws Error(io).
std::string handout_of(const Lab& lab);

}  // namespace cohort::labs
