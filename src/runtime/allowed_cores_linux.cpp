#include <sched.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "runtime/affinity.hpp"

namespace cohort {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

}  // namespace

std::vector<int> allowed_cores() {
  // The kernel refuses a set that is smaller than its own, whose size it does not tell.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(static_cast<std::size_t>(capacity)));
    COHORT_CHECK(set != nullptr, "no memory for a set of {} cores", capacity);
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> cores;
      for (int core = 0; core < capacity; ++core) {
        if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) cores.push_back(core);
      }
      return cores;
    }
    if (errno != EINVAL) break;
  }
  fail(ExitCode::launch, "cannot determine which cores this process may use: sched_getaffinity: {}", std::strerror(errno));
}

}  // namespace cohort
