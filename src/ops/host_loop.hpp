// The loops of a host over the threads of a rank (device.threads): OpenMP's threads, which are also those of oneDNN's products,
// so that they share the cores and do not fight for them. Without OpenMP one thread does all.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/units.hpp"

namespace cohort::ops {

/// Loops over fewer elements are not worth waking threads for.
inline constexpr Count kLeastOfThreads = Count{1} << 15;

/// Threads that a loop may have, begun by this thread: what set_gemm_threads() was called with, and one inside of such a loop.
int host_threads();

/// body(begin, end, thread) for runs that make up [0, n), one for each of host_threads(), at once. Bodies throw nothing.
template <class Body>
void for_runs(Count n, const Body& body) {
#ifdef _OPENMP
#pragma omp parallel
  {
    const Count threads = omp_get_num_threads(), thread = omp_get_thread_num();
    body(thread * n / threads, (thread + 1) * n / threads, static_cast<int>(thread));
  }
#else
  body(Count{0}, n, 0);
#endif
}

}  // namespace cohort::ops
