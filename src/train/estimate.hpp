// What a run will need, before it starts.
#pragma once

#include <string>

#include "config/run_config.hpp"
#include "models/model.hpp"

namespace cohort {

/// Bytes on one rank.
struct MemoryEstimate {
  Bytes parameters = 0;  // fp32, and the 16-bit copies that layers read
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes activations = 0;
  Bytes buffers = 0;  // ZeRO: whole gradients and weights of the groups at work
  Bytes replica = 0;  // the second replica of parallel.data = "manual"
  Bytes total() const { return parameters + gradients + optimizer + activations + buffers + replica; }
};

/// `config` is validated and its vocabulary known; builds nothing.
MemoryEstimate estimate_memory(const RunConfig& config);

/// "7.2 GiB: parameters 0.5 GiB, gradients 0.5 GiB, ...".
std::string describe_memory(const MemoryEstimate& memory);
/// Throws Error(memory) if the open GPU has less free memory than the estimate: the figures, and what to change.
void check_device_memory(const RunConfig& config);
/// The batch arithmetic in one line: "global batch 32 = micro-batch 4 x dp 4 x accumulation 2: 8,192 tokens a step".
std::string batch_arithmetic(const RunConfig& config);

/// A paragraph for --dry-run: model, parameters, batch, samples and epochs, memory.
std::string describe_run(const RunConfig& config, Count training_samples);

}  // namespace cohort
