// How the values of a run file fit each other, the number of ranks and this build; and the values that follow from others.
#pragma once

#include "config/run_config.hpp"

namespace cohort {

/// What this binary was built with and finds on the machine, as far as a run file can ask for it.
struct BuildFeatures {
  bool cuda = false;  // device.kind = "cuda" is accepted
  bool gpus = false;  // device.kind = "auto" means "cuda", else "cpu"
};

/// Checks what single values cannot show and fills what follows: run.directory, device.kind, model.kv_heads, model.ffn_width,
/// parallel.dp, parallel.bucket_mib, train.global_batch, train.accumulation, schedule.decay_steps. Pure: no files, no ranks; the
/// same on every rank. Doing it twice changes nothing more. Throws Error(config) with the place, the numbers and the nearest ones
/// that fit.
void validate(RunConfig& config, Count world_size, BuildFeatures features = {});

/// Throws Error(config) for a key that was set and has no effect beside the others: "accepted and ignored" would be a lie to
/// whoever set it. A part of validate().
void refuse_idle_keys(const RunConfig& config);

/// The vocabulary of the token file is known: fills model.vocabulary, or checks that the run file's is large enough for it.
void set_vocabulary(RunConfig& config, Count token_file_vocabulary);

}  // namespace cohort
