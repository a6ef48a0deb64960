// How far work has got.
#pragma once

#include <functional>

namespace cohort {

/// Called now and then with the share of the work done, 0 to 1.
using Progress = std::function<void(double)>;

}  // namespace cohort
