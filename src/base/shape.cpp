#include "base/shape.hpp"

#include <fmt/ranges.h>

namespace cohort {

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(vector(), ", ")); }

}  // namespace cohort
