// Trains a small decoder for some real steps (train/train_step.hpp), whole on one rank or in pipeline stages, and keeps what came
// of every step as whole tensors, so that two trainings can be compared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/pipeline/engine.hpp"
#include "parallel/pipeline/stages.hpp"
#include "parallel/problem.hpp"
#include "parallel/step_support.hpp"
#include "support/device_model.hpp"

namespace cohort::test {

/// gpt2: tied head, dropout, biases; llama: neither. 7 and 8 layers: some numbers of stages divide them, some do not.
ModelSection pipeline_section(const std::string& kind);

struct PipelineLayout {
  std::string model = "gpt2";
  int dp = 1;
  pipeline::Schedule schedule = {};  // pp = its stages, accumulation = its micro-batches
  std::string strategy = "bucketed";
  std::string wrap = "block";

  std::string str() const;
};

struct PipelineTraining {
  std::vector<double> losses;           // of each step
  std::vector<WholeTensors> gradients;  // of each step: all parameters by name
  std::vector<WholeTensors> weights;    // after each step
  bool copies_agree = true;             // both stages of a tied weight have the same bits

  bool operator==(const PipelineTraining&) const = default;
};

inline constexpr Count kPipelineSteps = 3;
/// Of a global batch: 1 to 8 micro-batches on 1 or 2 data-parallel ranks divide it.
inline constexpr Count kPipelineSamples = 48;

/// A rank's place, its chunks and its engine. A mutant may change the parts.
struct PipelineParts {
  Decoder& model;
  const pipeline::Schedule& schedule;
  Communicator& stages;
  Communicator& host_stages;
};
using MakeRunner = std::function<std::unique_ptr<pipeline::Engine>(const PipelineParts& parts)>;
using MakeChunks = std::function<std::vector<ChunkSpec>(const ModelSection& model, const pipeline::Schedule& schedule, int rank)>;
using OnEngine = std::function<void(pipeline::Engine& engine, Communicator& stages)>;

struct PipelineOptions {
  MakeRunner make = {};
  MakeChunks chunks = pipeline::chunks_of;
  OnEngine before_steps = {}, after_steps = {};
  unsigned unrelated_seed = 0;  // of the junk in the memory that activations will lie in
};

/// All ranks of `world`, which are dp x stages. // Collective over: world
PipelineTraining train_pipeline(Communicator& world, const PipelineLayout& layout, const PipelineOptions& options = {});
/// The yardstick: one rank, one micro-batch, no engine.
PipelineTraining train_whole(const std::string& model);

struct PipelineDistance {
  double losses = 0.0;     // relative, at worst over all steps
  double gradients = 0.0;  // relative to the largest of the same tensor, or to a tenth of the largest of all if that is more
  double weights = 0.0;    // likewise
  bool copies_agree = true;

  /// fp32 sums of up to 400 terms in another order differ by a few 1e-7 of the largest term; three steps of AdamW carry them on.
  /// The smallest fault of the planted ones is a hundred times as large as this.
  static constexpr double kTolerance = 1e-5;
  bool accepted() const { return losses <= kTolerance && gradients <= kTolerance && weights <= kTolerance && copies_agree; }
  std::string str() const;
};
PipelineDistance distance(const PipelineTraining& training, const PipelineTraining& yardstick);

}  // namespace cohort::test
