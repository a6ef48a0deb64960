// What a run will need, before it starts.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "models/model.hpp"

namespace cohort {

/// Bytes on one rank, the second replica of parallel.data = "manual" included.
struct MemoryEstimate {
  Bytes parameters = 0;  // fp32, and the 16-bit copies that layers read
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes activations = 0;
  Bytes buffers = 0;  // ZeRO: whole gradients and weights of the groups at work; pipelines: messages
  // What parallel.offload keeps elsewhere; not part of total().
  Bytes host = 0;  // in memory of the host, beside a GPU
  Bytes disk = 0;
  Bytes total() const { return parameters + gradients + optimizer + activations + buffers; }
};

/// Over all pipeline stages.
struct LargestMemory {
  MemoryEstimate kinds;  // each by itself: one stage may have the most parameters, another the most activations
  Bytes total = 0;       // of the stage that needs most in all
};

/// Of a rank of pipeline stage `stage`. `config` is validated and its vocabulary known; builds nothing.
MemoryEstimate estimate_memory(const RunConfig& config, int stage);
/// Stages among which is the one that needs most.
std::vector<int> stages_to_estimate(const RunConfig& config);
/// What every command says of a run's memory.
LargestMemory largest_memory(const RunConfig& config);

/// Of the activations of a step.
struct ActivationEstimate {
  Bytes arena = 0;      // what lives in TrainStep's arena: all, or in a pipeline what lives within one pass
  Bytes under_way = 0;  // pipelines: kept of micro-batches under way
  Bytes messages = 0;   // pipelines: buffers of messages
};
ActivationEstimate estimate_activations(const RunConfig& config, int stage);
/// What an arena is made larger by than is estimated: tensors begin at aligned addresses, and a little is lost between them.
inline constexpr Bytes kArenaReserve = kMiB;
/// Micro-batches and tokens of each that a rank works on at once.
struct MicroBatchShape {
  Count samples, tokens;
};
MicroBatchShape micro_batch_shape(const RunConfig& config);

/// "7.2 GiB a rank: parameters 0.5 GiB, gradients 0.5 GiB, ...".
std::string describe_memory(const LargestMemory& memory);
/// Throws Error(memory) if the open GPU has less free memory than a rank of `stage` needs: the figures, and what to change.
void check_device_memory(const RunConfig& config, int stage);
/// The batch arithmetic in one line: "global batch 32 = micro-batch 4 x dp 4 x accumulation 2: 8,192 tokens a step".
std::string batch_arithmetic(const RunConfig& config);

/// A paragraph for --dry-run: model, parameters, batch, samples and epochs, memory.
std::string describe_run(const RunConfig& config, Count training_samples);

}  // namespace cohort
