// What the references in this folder read and return: plain row-major arrays of doubles, with the shapes as arguments.
//
// The references are the first rung of each op's ladder: written to be read beside the formula, never to be fast, and the
// yardstick that the fast rungs are tested against. They are pure functions: they return new arrays and accumulate nowhere.
// Letters for shapes: see ops/exec.hpp.
#pragma once

#include <span>
#include <vector>

#include "base/units.hpp"

namespace cohort::ops::reference {

using Input = std::span<const double>;
using Array = std::vector<double>;

}  // namespace cohort::ops::reference
