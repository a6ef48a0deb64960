// One rank, no communication: the yardstick that every other strategy must agree with.
#pragma once

#include "parallel/data/data_parallel.hpp"

namespace cohort {

class Monolith : public DataParallel {
 public:
  Monolith(Model& model, Communicator& group);
  std::string_view name() const override { return "monolith"; }

 protected:
  void finish_gradients(StepTimers&) override {}
};

}  // namespace cohort
