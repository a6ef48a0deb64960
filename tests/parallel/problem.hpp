// Small training problems for the data-parallel tests: a model and, for each step, one global batch that every rank can build
// whole and take its own part of.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "models/model.hpp"

namespace cohort::test {

/// Which targets count. What parallel code gets wrong shows only where ranks have different numbers of them.
enum class Ignored {
  none,
  uneven,       // the later a sample's slot, the fewer of its targets count
  second_half,  // no target of the samples in the upper half counts: with 2 ranks or more the last one has none
};

struct Problem {
  std::string model;  // gpt2 (tied, dropout) | llama (untied, grouped-query attention) | mlp
  Ignored ignored = Ignored::uneven;
  Count samples = 12;  // of a global batch: 1, 2, 3 and 4 ranks divide it
};

/// Sizes that a step takes milliseconds for, with all the kinds of parameters of the real thing.
ModelSection model_section(const std::string& kind);

/// The whole global batch of one step; a pure function of its arguments.
class GlobalBatch {
 public:
  GlobalBatch(const Problem& problem, Count step);
  GlobalBatch(const GlobalBatch&) = delete;
  GlobalBatch& operator=(const GlobalBatch&) = delete;

  /// All samples as one micro-batch.
  ModelInput whole() const { return {samples_, inputs_, targets_, features_, slots_}; }
  /// The micro-batches of rank `rank` of `ranks`: micro-batch m has the slots (m ranks + rank) mb to (m ranks + rank + 1) mb.
  std::vector<ModelInput> part(int rank, int ranks, Count accumulation) const;
  Count valid_targets() const;

 private:
  Count samples_;
  std::vector<std::int32_t> inputs_, targets_;
  std::vector<float> features_;
  std::vector<Count> slots_;
};

Count count_valid_targets(const ModelInput& input);

}  // namespace cohort::test
