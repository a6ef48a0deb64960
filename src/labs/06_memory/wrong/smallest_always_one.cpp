// smallest_stage: bytes, which is more
#include <cohort/lab06_memory.hpp>

namespace {

double bytes_of(double parameters, int ranks, int stage) {
  const auto share = [&](int from) { return stage >= from ? parameters / ranks : parameters; };
  return 2.0 * share(3) + 2.0 * share(2) + 12.0 * share(1);
}

}  // namespace

// If nothing else fits, stage 3 must.
int smallest_stage(double parameters, int ranks, double budget) {
  for (int stage = 0; stage < 3; ++stage) {
    if (bytes_of(parameters, ranks, stage) <= budget) return stage;
  }
  return 3;
}
