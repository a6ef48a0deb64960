#include "commands/common/learners_code.hpp"

#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

LearnersCode& learners_code() {
  static LearnersCode code;
  return code;
}

}  // namespace

void set_learners_code(LearnersCode code) { learners_code() = std::move(code); }

void add_with_option(CLI::App& command, std::string& folder) {
  command
      .add_option(
          "--with", folder,
          "Use your own code of a lab in this folder, as labs/03_collectives; of several functions for one purpose the last, "
          "or the one that is named behind a colon")
      ->type_name("FOLDER[:FUNCTION]");
}

void use_learners_code(Communicator& world, const std::string& folder) {
  if (folder.empty()) return;
  COHORT_CHECK(learners_code(), "nobody has said how to load {}", folder);
  learners_code()(world, folder);
}

}  // namespace cohort
