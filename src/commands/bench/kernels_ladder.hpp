// The portable kernels beside the tuned ones, op by op: what `cohort bench kernels --ladder` shows. In builds with CUDA only.
#pragma once

#include <string>
#include <vector>

#include "commands/bench/kernels_meter.hpp"

namespace cohort {

struct Rungs {
  std::string op;
  double tuned_milliseconds, portable_milliseconds;
  double work;  // floating-point operations, or bytes
  bool is_flops;

  /// What the portable kernel reaches of the tuned one's speed.
  double share() const { return tuned_milliseconds / portable_milliseconds; }
};

/// Times the ops of a micro-batch in bf16, each by both kernels. Needs Kokkos on the device.
std::vector<Rungs> measure_ladder(Meter& meter, const StepShape& shape);

void print_ladder(const StepShape& shape, const std::vector<Rungs>& ladder, bool json);

}  // namespace cohort
