// What this binary is, for checkpoints and `cohort info`.
#pragma once

#include <string>

namespace cohort {

/// "0.1.0".
std::string cohort_version();
/// Of the sources at the configure step; "unknown ..." outside a git checkout.
std::string git_revision();

}  // namespace cohort
