// A learner's code in a real run: `cohort train RUN --with FOLDER`.
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace cohort::labs {

/// Compiles the exercise of FOLDER, a folder of a lab that was started, or FOLDER:FUNCTION, on rank 0; loads it on all ranks,
/// which must see the folder; and lets the program use its functions from now on: all that the lab has a use for, of several for
/// one purpose the last, or the one that is named. Rank 0 says which. SharedError (usage), (io). // Collective over: world
void use_learners_code(Communicator& world, const std::string& words);

}  // namespace cohort::labs
