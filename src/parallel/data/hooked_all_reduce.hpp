// All-reduce from hooks: as soon as backward has finished with a gradient, the hook adds it up over the ranks. No pass over the
// parameters afterwards, but still one message a parameter, and backward waits for each.
#pragma once

#include "parallel/data/data_parallel.hpp"

namespace cohort {

class HookedAllReduce : public DataParallel {
 public:
  using DataParallel::DataParallel;
  std::string_view name() const override { return "hooks"; }

  void grad_ready(Parameter& parameter) override;

 protected:
  void finish_gradients(StepTimers&) override {}  // the hooks have done it
};

}  // namespace cohort
