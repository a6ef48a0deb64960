#include "ops/host_loop.hpp"

namespace cohort::ops {

int host_threads() {
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

}  // namespace cohort::ops
