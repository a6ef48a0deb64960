// The simplest data parallelism between ranks: finish backward, then all-reduce each gradient in turn. Every rank waits through
// all of it, and many gradients are small, so that latency dominates: the later strategies mend the one and the other.
#pragma once

#include "parallel/data/data_parallel.hpp"

namespace cohort {

class Naive : public DataParallel {
 public:
  using DataParallel::DataParallel;
  std::string_view name() const override { return "naive"; }

 protected:
  void finish_gradients(StepTimers& timers) override;
};

}  // namespace cohort
