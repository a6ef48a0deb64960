// A run file on all ranks.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "runtime/runtime.hpp"

namespace cohort {

/// Reads and validates the run file on every rank; an error on any is an error on all, and so is a file that differs between
/// ranks. `world_size` is the number of ranks to validate for. As soon as the file is read its watch.timeout holds, here and
/// below. device.kind = "auto" is decided by the GPUs that the ranks see, and rank 0 says how. `any_device`: "cuda" is accepted
/// where there is none, since nothing will be computed.
// Collective over: world
RunConfig load_run(Runtime& runtime, Communicator& world, const std::string& path, const std::vector<std::string>& overrides,
                   Count world_size, bool any_device = false);

/// The same without the file's layout, as one rank runs it: see reference_config(). The global batch is that of the file, or, if
/// it names none, what all ranks of the job would make of it. // Collective over: world
RunConfig load_run_without_layout(Runtime& runtime, Communicator& world, const std::string& path,
                                  const std::vector<std::string>& overrides);

struct CheckpointUse {
  bool reads_data = true;   // else the run may name none, as those of imported weights do
  std::string layout = {};  // keys of [parallel], "tp=2,pp=2", for all ranks of the job; "": each has the whole model
  std::string tokens = {};  // token file in place of the run's data; "": the run's data
};

/// The run of a checkpoint, for use by another number of ranks: batch and layout are chosen again, and so is the device if the
/// run had GPUs (as by device.kind = "auto"). What was trained in fp8 computes in bf16. // Collective over: world
RunConfig run_of_checkpoint(Runtime& runtime, Communicator& world, const std::string& run_file,
                            std::vector<std::string> overrides, const CheckpointUse& use = {});

/// What a run file asks of the ranks before they compute: whether their collectives are compared, and the device of each. Rank 0
/// warns of more threads than cores.
// Collective over: world
void set_up_job(Runtime& runtime, Communicator& world, const RunConfig& config);

/// Throws SharedError(config), "{what} needs ...; {instead}", unless the GPUs of all ranks, which are open, have products in 8
/// bits. // Collective over: world
void check_gpus_have_fp8(Communicator& world, const std::string& what, const std::string& instead);

}  // namespace cohort
