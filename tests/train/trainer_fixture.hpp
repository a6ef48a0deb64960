// A small run for the tests of the trainer: a token file, a run file, and what is left of a run when it has ended.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "comm/mpi_communicator.hpp"
#include "rundir/run_directory.hpp"
#include "shared_folder.hpp"
#include "train/trainer.hpp"

namespace cohort::test {

namespace fs = std::filesystem;

/// Relative: how far losses of ten steps may be apart when fp32 sums come in another order. They differ by a few 1e-7 at first;
/// Adam divides by the root of small second moments and makes up to 1e-5 of it. A margin of ten is left.
inline constexpr double kDrift = 1e-4;

/// All that a run leaves behind, as far as it must be the same in another run of the same training.
struct Remains {
  std::map<std::string, std::vector<std::byte>> tensors;  // of the newest checkpoint: weights, "m" and "v"
  std::vector<nlohmann::json> metrics;                    // without times and other readings
  std::vector<std::string> steps;                         // what this rank's log says of each step, samples included

  /// The values of one key of the metrics, step by step.
  std::vector<double> series(const std::string& key) const;
};

class TrainerTest : public ::testing::Test {
 protected:
  /// Writes tokens.h5: 38 samples to train on and 4 for validation, of random letters. // Collective over: world
  TrainerTest();

  using Overrides = std::vector<std::string>;
  /// The run file of these tests for `ranks` ranks: gpt2 with dropout, two micro-batches a step, global batch 24 (so that an
  /// epoch ends within the second step), ten steps and a schedule for ten, a checkpoint every five.
  RunConfig config(const Overrides& overrides = {}, int ranks = 0) const;
  /// The same for a llama with an untied head and grouped queries.
  RunConfig llama_config(const Overrides& overrides = {}) const;
  /// The same for the mlp and its points.
  RunConfig mlp_config(const Overrides& overrides = {}) const;
  /// Trains as `cohort train` does, on the device under test. // Collective over: comm
  ExitCode train(const RunConfig& config, Communicator& comm, ExistingRun existing = ExistingRun::refuse,
                 bool allow_changes = false, const std::string& from = "") const;
  ExitCode train(const RunConfig& config, ExistingRun existing = ExistingRun::refuse, bool allow_changes = false,
                 const std::string& from = "") const {
    return train(config, *world_, existing, allow_changes, from);
  }
  /// Reads what run `name` left behind; the log is that of rank `rank`, or of the calling one. // Collective over: world
  Remains remains(const std::string& name, int rank = -1) const;
  /// The steps of its checkpoints. // Collective over: world
  std::vector<Count> checkpoints(const std::string& name) const;

  void write_tokens(const std::string& file, std::uint64_t seed, const std::string& letters = "abcdefghijklmnopqrst ") const;
  bool root() const { return world_->rank() == 0; }

  Overrides with_tokens(const Overrides& overrides) const;
  /// From the run file's [model] to a validated config.
  RunConfig finish(const std::string& model, const Overrides& overrides, int ranks) const;

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  SharedFolder folder_{*world_};
};

}  // namespace cohort::test
