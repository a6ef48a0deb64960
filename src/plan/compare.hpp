// The prediction beside the measurement, number by number, and whether the two agree.
#pragma once

#include <string>
#include <vector>

#include "plan/measure.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"

namespace cohort {

/// What a prediction may be off by. It is the step's own code that was counted, so there is little that could differ: every kind
/// of memory and their total may be off by so much of what was measured,
inline constexpr double kTolerance = 0.001;
/// or by these bytes where that is more:
/// memory: ranks of ZeRO own other elements than the one that was counted, and so have another number of ranges that decay, of 24
/// bytes each, in the optimizer's list;
inline constexpr Bytes kMemoryAllowance = 4 * kKiB;
/// traffic, to which kTolerance does not apply: the clocks of a pipeline's ranks are set before a step is recorded;
inline constexpr Bytes kTrafficAllowance = kNumbersOfAStep;
/// tensors of no kind, to which kTolerance does not apply: copies for a moment.
inline constexpr Bytes kOthersAllowance = 64 * kKiB;

struct Comparison {
  std::string what;
  Bytes predicted = 0;
  Bytes measured = 0;
  Bytes allowance = 0;
  double tolerance = kTolerance;

  /// (predicted - measured) / measured; 0 if they are the same, infinite if nothing was measured.
  double off() const;
  /// The larger of the tolerance of what was measured and the allowance.
  Bytes limit() const;
  /// Off by no more than the limit.
  bool within() const;
};

/// One line for each kind, and one for their total.
std::vector<Comparison> compare_memory(const PredictedMemory& predicted, const Measurement& measured);
/// The sums of what is of no kind. The copies that 16 bits on a CPU need are left out.
Comparison compare_others(const PredictedMemory& predicted, const Measurement& measured);
/// One line for each (group, operation) of bytes given that is above the allowance in either.
std::vector<Comparison> compare_traffic(const std::vector<Traffic>& predicted, const Measurement& measured);

}  // namespace cohort
