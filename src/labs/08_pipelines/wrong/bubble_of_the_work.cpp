// bubble_fraction: that is of the time of the work alone
#include <cohort/lab08_pipelines.hpp>

// The ratio of the Megatron paper.
double bubble_fraction(int stages, int chunks, int micro_batches) {
  return static_cast<double>(stages - 1) / (static_cast<double>(chunks) * micro_batches);
}
