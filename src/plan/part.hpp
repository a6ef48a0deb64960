// What one place of the mesh holds of the model, declared without memory: what the papers' formulas start from.
#pragma once

#include <memory>

#include "config/run_config.hpp"
#include "models/decoder.hpp"
#include "parallel/pipeline/pipeline_schedule.hpp"

namespace cohort {

class PlannedPart {
 public:
  /// `config` is validated and its vocabulary known; `stage` is below parallel.pp.
  PlannedPart(const RunConfig& config, int stage);

  const Model& model() const { return *model_; }
  const pipeline::Schedule& schedule() const { return schedule_; }
  int stage() const { return stage_; }

  /// Transformer blocks, or layers of an mlp.
  Count layers() const;
  /// Those of them that have activation checkpointing.
  Count checkpointed_layers() const;
  /// The others, of the chunk that has most of them.
  Count most_whole_layers_of_a_chunk() const;
  /// Those of the chunk that has most: all without a pipeline.
  Count layers_of_largest_chunk() const;
  /// Rows of a micro-batch that a rank works on: its samples times the tokens that it has of each (cp divides them).
  Count rows() const { return rows_; }
  /// Bytes of those rows of the stream between blocks, of all tensor-parallel parts together.
  Bytes stream_bytes() const;

 private:
  const RunConfig& config_;
  int stage_;
  TensorParallel parallel_;
  pipeline::Schedule schedule_;
  std::unique_ptr<Model> model_;
  Count rows_;
};

}  // namespace cohort
