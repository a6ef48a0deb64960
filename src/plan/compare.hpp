// The prediction beside the measurement, number by number, and whether the two agree.
#pragma once

#include <string>
#include <vector>

#include "plan/measure.hpp"
#include "plan/memory.hpp"
#include "plan/traffic.hpp"

namespace cohort {

/// A prediction may be off by so much of what was measured.
inline constexpr double kTolerance = 0.05;

/// ... or, where that is less, by so many bytes:
/// memory: the optimizer's list of ranges, and blocks rounded up to 64 elements;
inline constexpr Bytes kMemoryFloor = 16 * kKiB;
/// activations: every tensor begins at a multiple of 256 bytes, and a layer has some twenty;
inline constexpr Bytes kActivationFloor = 64 * kKiB;
/// traffic: the numbers of a step, such as loss and gradient norm, 8 bytes each, are not predicted;
inline constexpr Bytes kTrafficFloor = kKiB;
/// tensors that no formula covers: tables of positions, inputs. Beyond it they, too, may be a share of all, kTolerance.
inline constexpr Bytes kOthersFloor = kMiB;

struct Comparison {
  std::string what;
  Bytes predicted = 0;
  Bytes measured = 0;
  Bytes floor = 0;

  /// (predicted - measured) / measured; 0 if they are the same, infinite if nothing was measured.
  double off() const;
  /// Off by no more than the tolerance of what was measured, or, where that is more, the floor.
  bool equal() const;
  /// Equal by the floor alone: off by more than the tolerance.
  bool small() const;
};

/// One line for each kind, and one for their total.
std::vector<Comparison> compare_memory(const PredictedMemory& predicted, const Measurement& measured);
/// The sum of Measurement::others, of which nothing is predicted, against the share of all memory that they may be. The copies
/// that 16 bits on a CPU need are left out.
Comparison compare_others(const Measurement& measured);
/// One line for each (group, operation) of bytes given that is above the floor in either.
std::vector<Comparison> compare_traffic(const std::vector<Traffic>& predicted, const Measurement& measured);

}  // namespace cohort
