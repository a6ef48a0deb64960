// Comparing two checkpoints, tensor by tensor, whatever form and layout they were written in. Both are read in windows, so memory
// stays small however large the model is.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/read/reader.hpp"
#include "checkpoint/read/verify.hpp"

namespace cohort {

enum class TensorComparison { equal, unequal, only_in_first, only_in_second, other_shape, other_dtype };

/// How a tensor of two checkpoints A and B differs. Elements of 16 bits are compared as fp32. An element is different if its bits
/// are and |a - b| > tolerance: with tolerance 0 (bit for bit) also -0 from 0; a NaN equals a NaN of the same bits and differs
/// from all else by infinity, as infinities differ from all else.
struct TensorDifference {
  std::string name;
  TensorComparison result = TensorComparison::equal;
  std::string note;  // shapes and types, where they are different
  Count elements = 0;
  Count different = 0;       // elements
  double absolute = 0.0;     // the largest |a - b| of all elements
  double relative = 0.0;     // the largest |a - b| / max(|a|, |b|)
  double square_sum = 0.0;   // of (a - b)^2
  std::vector<Count> first;  // the index of the first element that is different, in row-major order; empty for none

  /// The root of the mean of (a - b)^2.
  double root_mean_square() const;
};

/// All tensors of both, in A's order, then those only in B. A tensor of another dtype is compared by its values, if both are of
/// floating types up to 32 bits, and is other_dtype only where the types are not comparable. Errors (checkpoint): damage.
std::vector<TensorDifference> compare_tensors(const TensorReader& a, const TensorReader& b, double tolerance,
                                              const ReadingProgress& progress = {});

/// A fact of the training state that differs.
struct StateDifference {
  std::string name;
  std::string a, b;
  bool decides = true;  // training resumes from it; false for who wrote the checkpoint, what it measured, its history
};

/// All but the run file. Of tokenizers size and checksum, where both have one; a checkpoint that has none says in its data which
/// one its tokens were made with.
std::vector<StateDifference> compare_states(const TrainingState& a, const TrainingState& b);

}  // namespace cohort
