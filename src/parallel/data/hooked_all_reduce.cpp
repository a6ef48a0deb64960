#include "parallel/data/hooked_all_reduce.hpp"

namespace cohort {

void HookedAllReduce::grad_ready(Parameter& parameter) {
  if (!last_micro_batch()) return;  // more will be added to this gradient
  const auto scope = timers().scope(Phase::communication);
  group_.all_reduce(parameter.gradient.raw(), parameter.elements(), DType::f32, ReduceOp::sum);
}

}  // namespace cohort
