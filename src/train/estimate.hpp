// What a run will need, before it starts.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "models/model.hpp"
#include "train/counted_step.hpp"

namespace cohort {

/// Bytes on one rank, the second replica of parallel.data = "manual" included.
struct MemoryEstimate {
  Bytes parameters = 0;  // fp32, and the 16-bit copies that layers read
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes activations = 0;
  Bytes buffers = 0;  // what comes and goes: whole gradients and weights of ZeRO's groups at work, messages of a pipeline
  // What parallel.offload and model.activation_offload keep elsewhere; not part of total().
  Bytes host = 0;  // in memory of the host, beside a GPU
  Bytes disk = 0;
  Bytes total() const { return parameters + gradients + optimizer + activations + buffers; }
};

/// Over all pipeline stages.
struct LargestMemory {
  MemoryEstimate kinds;  // each by itself: one stage may have the most parameters, another the most activations
  Bytes total = 0;       // of the stage that needs most in all
};

/// Of what was counted. The arenas that hold the activations get kArenaReserve each on top.
MemoryEstimate estimate_memory(const CountedStep& counted);
/// The same, counted now (count_step()).
MemoryEstimate estimate_memory(const RunConfig& config, int stage);
/// What every command says of a run's memory.
LargestMemory largest_memory(const std::vector<CountedStep>& stages);
LargestMemory largest_memory(const RunConfig& config);

/// "7.2 GiB a rank: parameters 0.5 GiB, gradients 0.5 GiB, ...".
std::string describe_memory(const LargestMemory& memory);
/// Counts the step of this rank, which is of pipeline stage `stage`. Throws SharedError(memory), the same on all ranks, if it
/// does not fit into the free memory of a rank's open GPU or of a node: the figures, and what to change. // Collective over:
/// world
CountedStep count_step_that_fits(const RunConfig& config, int stage, Communicator& world);
/// The batch arithmetic in one line: "global batch 32 = micro-batch 4 x dp 4 x accumulation 2: 8,192 tokens a step".
std::string batch_arithmetic(const RunConfig& config);

/// A paragraph for --dry-run: model, parameters, batch, samples and epochs, memory, also that of the host which several ranks of
/// a node share. `ranks_per_node` 0: not known.
std::string describe_run(const RunConfig& config, Count training_samples, int ranks_per_node);

}  // namespace cohort
