// The loops of a host over the threads of a rank (device.threads): OpenMP's threads, which are also those of oneDNN's products,
// so that they share the cores and do not fight for them. Without OpenMP one thread does all, as it does in the sources that
// nvcc compiles in builds with CUDA (norms, activations, losses, embeddings, optimizers).
#pragma once

#ifdef _OPENMP
#include <omp.h>

#include <exception>
#endif

#include "base/units.hpp"

namespace cohort::ops {

/// Loops over fewer elements are not worth waking threads for.
inline constexpr Count kLeastOfThreads = Count{1} << 15;

/// Threads that a loop may have, begun by this thread: what this thread called set_gemm_threads() with, and one inside of such a
/// loop.
int host_threads();

/// body(begin, end, thread) for runs that make up [0, n), one for each of host_threads(), at once. Throws what the first body
/// threw, when all have ended.
template <class Body>
void for_runs(Count n, const Body& body) {
#ifdef _OPENMP
  std::exception_ptr thrown;  // none may leave the parallel region
#pragma omp parallel
  {
    const Count threads = omp_get_num_threads(), thread = omp_get_thread_num();
    try {
      body(thread * n / threads, (thread + 1) * n / threads, static_cast<int>(thread));
    } catch (...) {
#pragma omp critical(cohort_for_runs)
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
#else
  body(Count{0}, n, 0);
#endif
}

}  // namespace cohort::ops
