#include "parallel/data/naive.hpp"

namespace cohort {

void Naive::finish_gradients(StepTimers& timers) {
  const auto scope = timers.scope(Phase::communication);
  for (const Parameter* parameter : model_.parameters().trained()) {
    group_.all_reduce(parameter->gradient.raw(), parameter->elements(), DType::f32, ReduceOp::sum);
  }
}

}  // namespace cohort
