// The numbers next to one that does not fit, for messages.
#pragma once

#include <functional>
#include <string>

#include "base/units.hpp"

namespace cohort {

/// The nearest values to `from` in [1, high] that fit, one on each side: "96 or 128"; "none" if there are none.
std::string nearest_fits(Count from, Count high, const std::function<bool(Count)>& fits);

/// The multiples of `unit` around `value`: "96 or 128"; above alone where there is none below.
std::string nearest_multiples(Count value, Count unit);

}  // namespace cohort
