// What looks at the steps of a training, and what it may ask for: the loop (trainer.hpp) computes steps and knows nothing of
// logs, metrics, validation, checkpoints, requests or faults. Each of these is an observer, a file in train/observers; the list,
// whose order counts, is in train/observers/observers.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/evaluate.hpp"
#include "train/train_step.hpp"

namespace cohort {

/// What an observer asks the loop for. The same on all ranks.
struct Wish {
  struct Stop {
    ExitCode code = ExitCode::success;
    std::string why;
  };
  bool save = false;              // a checkpoint after the step that is under way
  std::optional<Stop> stop = {};  // that the run ends after this step, with a checkpoint; ignored after the last step
};

/// A step that is done.
struct StepRecord {
  Count step = 0;  // 1 the first
  const StepResult& result;
  double rate = 0.0;                          // tokens (samples) per second of the step itself
  std::optional<Evaluation> evaluation = {};  // of the validation after it, if there was one
  std::optional<Bytes> memory = {};           // of the rank that uses most, at reported steps
  nlohmann::ordered_json figures = {};        // what observers add to the metrics of the step; null: nothing
  nlohmann::ordered_json layers = {};         // rank 0: what layers.jsonl has of the step; null: nothing
  nlohmann::ordered_json metrics = {};        // rank 0, behind the metrics file: the record that it has written
};

/// All ranks have the same observers in the same order, so each call may be a collective over all ranks, if it is one on all. An
/// exception ends the run: a SharedError if all ranks throw it. Observers are called in the order of the list.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  /// Before the first step of this part of the run.
  virtual void begin_run() {}
  /// Once a step, while the next one's batch is read: numbers of this rank, always as many, which are added up over all ranks in
  /// the one small message that a step costs anyway; and what came of them.
  virtual std::vector<std::int64_t> votes() { return {}; }
  virtual Wish heard(std::span<const std::int64_t> /*sums*/) { return {}; }
  /// The step is about to be computed. May change what goes into it: faults do.
  virtual void begin_step(StepInput& /*input*/) {}
  /// The step is done, the weights are the new ones. May add to the record for those behind it in the list. By then the next
  /// step's batch has been read.
  virtual Wish end_step(StepRecord& /*record*/) { return {}; }
  /// A checkpoint is about to be written; it is on disk, which may be some steps later.
  virtual void begin_save() {}
  virtual void saved(Count /*step*/) {}
  /// Nothing comes after this. `completed`: the last step of the run is done; else it was stopped. Saves are on disk.
  virtual void end_run(bool /*completed*/) {}
};

using Observers = std::vector<std::unique_ptr<StepObserver>>;

}  // namespace cohort
