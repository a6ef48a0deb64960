// Exceptions of the standard library that a user can cause, as the Error that they mean.
#pragma once

#include <exception>

#include "base/error.hpp"

namespace cohort {

/// Of an exception that is not a cohort::Error: memory if it ran out; io with the paths for an error of std::filesystem, and for
/// standard output that cannot be written; internal, a bug in Cohort, for all others.
Error as_error(const std::exception& error);

}  // namespace cohort
