// accumulate: as if the batch were that many times larger
#include <algorithm>
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>

// Adds up, and never divides.
double accumulate(std::span<const MicroBatch> micro_batches, std::span<float> gradient) {
  double loss = 0.0;
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (const MicroBatch& batch : micro_batches) {
    loss += batch.loss;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += batch.gradient[i];
  }
  return loss;
}
