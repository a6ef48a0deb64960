// The result of `cohort ckpt diff`, and how it is put on the page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/inspect/difference.hpp"

namespace cohort {

/// All that differs between two checkpoints.
struct CheckpointDifference {
  Count step = 0;  // of the first
  std::vector<TensorDifference> tensors;
  std::vector<StateDifference> state;
  std::vector<StateDifference> run_file;  // keys, with their values

  Count unequal_tensors() const;
  /// Whether tensors, or facts that training resumes from, differ.
  bool unequal() const;
};

/// The keys of two run files that differ. A file that this Cohort cannot read is compared as a text: one item with the reason.
std::vector<StateDifference> compare_run_files(const std::string& a, const std::string& b);

/// The tensors that differ, by falling largest absolute difference (those that cannot be compared first), at most `limit` of them
/// (0: all); then facts and keys.
std::string as_text(const CheckpointDifference& difference, Count limit);
nlohmann::ordered_json as_json(const CheckpointDifference& difference, Count limit);

/// Where two runs part: a line for each step, then, for each tensor that ever differs, from which step on and by how much.
std::string as_text(const std::vector<CheckpointDifference>& steps, Count limit);

}  // namespace cohort
