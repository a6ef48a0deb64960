// The hints of an exercise, from a nudge to the idea.
#pragma once

#include <string>
#include <vector>

#include "labs/labs.hpp"

namespace cohort::labs {

/// Of the lab's hints.md: below the heading "## 3.1 ..." a list "1. ...", an item a hint. Throws Error(io); Error(internal) if
/// the exercise has none.
std::vector<std::string> hints_of(const Lab& lab, std::size_t exercise);

}  // namespace cohort::labs
