// A plan for a machine in words: what an engineer would answer to "how would you run this on 1,000 GPUs?".
#pragma once

#include <string>
#include <vector>

#include "commands/plan/machine_plan.hpp"

namespace cohort {

/// What is planned, and how far the numbers can be trusted.
std::string words_of_machine(const MachinePlan& plan);

/// Paragraphs: memory, the layout and why no other, the step, scaling, time and cost, failures.
std::vector<std::string> explanation(const MachinePlan& plan);

}  // namespace cohort
