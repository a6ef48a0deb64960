// A DeepSpeed configuration (JSON) as keys of a run file: batch, accumulation, clipping, optimizer, schedule, precision, ZeRO.
// Source of the keys and their meaning: DeepSpeed's documentation, "DeepSpeed Configuration JSON".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

struct DeepSpeedImport {
  struct Key {
    std::string section, name;  // "train", "micro_batch"
    std::string value;          // as TOML
    std::string from;           // "train_micro_batch_size_per_gpu = 4"
  };
  std::vector<Key> keys;                    // in the order of the run file's sections
  std::vector<std::string> not_understood;  // "zero_optimization.offload_optimizer.device = \"cpu\": why"
};

/// Reads a configuration; `source` stands for the file in messages. What has no counterpart is listed, never dropped; what is
/// switched off, or left to "auto", needs none. Throws Error(config) if it is not JSON or not an object, or if a value that is
/// understood is not of the right kind.
DeepSpeedImport import_deepspeed(std::string_view text, const std::string& source);

/// The keys as part of a run file, each with where it comes from, and what was not understood as comments.
std::string to_run_file(const DeepSpeedImport& import);

}  // namespace cohort
