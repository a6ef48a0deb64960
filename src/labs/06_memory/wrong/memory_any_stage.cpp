// memory_of_stage: it takes a stage that there is not
#include <cohort/lab06_memory.hpp>

// Stage 4 is as good as stage 3.
StateBytes memory_of_stage(double parameters, int ranks, int stage) {
  const auto share = [&](int from) { return stage >= from ? parameters / ranks : parameters; };
  return {.parameters = 2.0 * share(3), .gradients = 2.0 * share(2), .optimizer = 12.0 * share(1)};
}
