// Trains a problem for some steps under one strategy and keeps what came of every step, so that two trainings can be compared:
// the losses, the gradients after reduction and the weights after the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "mesh/mesh.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/problem.hpp"

namespace cohort::test {

/// All ranks as one data-parallel group.
class Ranks {
 public:
  // Collective over: world
  Ranks();
  /// For numbers of the host.
  Communicator& host() const { return *world_; }
  /// For tensors, where the test computes.
  Communicator& tensors() const { return mesh_ ? mesh_->gradient() : *world_; }
  int size() const { return world_->size(); }
  int rank() const { return world_->rank(); }

 private:
  std::unique_ptr<Communicator> world_;
  std::optional<Mesh> mesh_;  // on GPUs
};

enum class Update {
  adamw,  // with clipping and weight decay
  sgd     // plain: weights -= rate x gradient. It hides faults that AdamW shows
};

struct Trajectory {
  std::vector<double> losses;                 // [steps]
  std::vector<std::vector<float>> gradients;  // [steps][elements], in the order of the registry
  std::vector<std::vector<float>> weights;    // [steps][elements]
  std::vector<std::size_t> ends;              // [parameters] where each parameter ends in the flat vectors

  /// The same bits everywhere.
  bool operator==(const Trajectory&) const = default;
};

/// Makes the strategy under test.
using MakeStrategy = std::function<std::unique_ptr<DataParallel>(Model& model, Communicator& group)>;

/// The strategy that a run file would name; `bucket_mib` and `reduction` matter to bucketed alone.
MakeStrategy strategy_named(const std::string& name, const ModelSection& model, double bucket_mib = 4.0,
                            DType reduction = DType::f32);

/// The same, of a whole section.
MakeStrategy strategy_of(const ParallelSection& section, const ModelSection& model, DType reduction = DType::f32);

struct TrainOptions {
  Count accumulation = 1;
  Update update = Update::adamw;
  bool sharded = false;  // the strategy keeps the parameters itself
  /// Random state that has no part in training (the C library's, the memory that activations will lie in) is set from this.
  unsigned unrelated_seed = 0;
};

inline constexpr Count kSteps = 6;
inline constexpr std::uint64_t kSeed = 42;  // of initial values and dropout

/// kSteps optimizer steps on the device under test; all ranks of `group`, which is for tensors, share the global batches.
// Collective over: group
Trajectory train(const Problem& problem, Communicator& group, const MakeStrategy& make, const TrainOptions& options = {});

/// The yardstick: one rank, the whole global batch in one micro-batch, no communication.
Trajectory train_alone(const Problem& problem, Update update = Update::adamw);

/// How far a training is from the yardstick, at worst over all steps and ranks.
struct Distance {
  double losses = 0.0;      // relative
  double gradients = 0.0;   // relative to the largest of the same tensor
  double weights = 0.0;     // likewise
  bool same_ranks = false;  // all ranks have the same bits

  /// What is asked of every strategy. fp32 sums of about 100 terms in another order differ by a few 1e-7 of the largest term; six
  /// steps of AdamW carry them on. The smallest fault of the planted ones is a hundred times as large as this.
  static constexpr double kTolerance = 1e-5;
  bool accepted() const { return losses <= kTolerance && gradients <= kTolerance && weights <= kTolerance && same_ranks; }
  std::string str() const;
};

// Collective over: group, which is the host's
Distance distance(Communicator& group, const Trajectory& trajectory, const Trajectory& yardstick);

}  // namespace cohort::test
