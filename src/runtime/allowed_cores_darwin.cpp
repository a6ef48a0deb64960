#include <numeric>

#include "runtime/affinity.hpp"

namespace cohort {

// A Mac does not bind processes to cores: all may be used.
std::vector<int> allowed_cores() {
  std::vector<int> cores(static_cast<std::size_t>(online_cores()));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

}  // namespace cohort
