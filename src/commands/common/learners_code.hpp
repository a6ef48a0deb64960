// --with FOLDER: a run that uses code of the course's exercises. The commands do not know the labs; main tells them how.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// Loads the code of a folder, and lets the program use it. // Collective over: world
using LearnersCode = std::function<void(Communicator& world, const std::string& folder)>;

/// To be told before a command with the option runs.
void set_learners_code(LearnersCode code);

void add_with_option(CLI::App& command, std::string& folder);
/// Nothing for "". // Collective over: world
void use_learners_code(Communicator& world, const std::string& folder);

}  // namespace cohort
