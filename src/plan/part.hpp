// What one place of the mesh holds of the model, declared without memory: what every prediction starts from. Places differ by
// their pipeline stage alone: along dp and cp all hold the same, and along tp the first part holds no less than any other. So a
// plan looks at as many parts as there are stages, however many ranks there are.
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
  /// Null for an mlp.
  const Decoder* decoder() const { return decoder_; }
  const TensorParallel& parallel() const { return parallel_; }
  const pipeline::Schedule& schedule() const { return schedule_; }
  int stage() const { return stage_; }

  /// Transformer blocks, or layers of an mlp.
  Count layers() const;
  bool embeds() const;
  bool has_head() const;
  /// Rows of a micro-batch that a rank works on: its samples times the tokens that it has of each (cp divides them).
  Count rows() const { return rows_; }
  /// Bytes of those rows of the stream between blocks, of all tensor-parallel parts together.
  Bytes stream_bytes() const;
  /// Bytes of one message of a pipeline: what of that stream is this part's own.
  Bytes message_bytes() const { return stream_bytes() * parallel_.own_rows(rows_) / rows_; }

 private:
  const RunConfig& config_;
  int stage_;
  TensorParallel parallel_;
  pipeline::Schedule schedule_;
  std::unique_ptr<Model> model_;
  const Decoder* decoder_;
  Count rows_;
};

}  // namespace cohort
