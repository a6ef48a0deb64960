// `cohort lab`: the course's exercises, for learners and instructors.
#pragma once

#include "commands/commands.hpp"

namespace cohort::labs {

void add_lab_command(CLI::App& app, Action& action);

}  // namespace cohort::labs
