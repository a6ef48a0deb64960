// Trains a problem for some real steps (train/train_step.hpp) under one strategy and keeps what came of every step, so that two
// trainings can be compared: the losses, the gradients after reduction and the weights after the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_communicator.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/problem.hpp"
#include "parallel/step_support.hpp"

namespace cohort::test {

/// All ranks as one data-parallel group.
class Ranks {
 public:
  // Collective over: world
  Ranks() : world_(make_world_communicator()), mesh_(mesh_of(*world_, MeshShape(world_->size(), 1, 1, 1))) {}
  /// For numbers of the host.
  Communicator& host() const { return *world_; }
  /// For tensors, where the test computes.
  Communicator& tensors() const { return mesh_->gradient(); }
  const Mesh& mesh() const { return *mesh_; }
  int size() const { return world_->size(); }
  int rank() const { return world_->rank(); }

 private:
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Mesh> mesh_;
};

enum class Update {
  adamw,  // with clipping and weight decay
  sgd     // plain: weights -= rate x gradient. It hides faults that AdamW shows
};

struct Trajectory {
  std::vector<double> losses;                 // [steps]; none of SGD, which is no step of ours
  std::vector<std::vector<float>> gradients;  // [steps][elements], in the order of the registry
  std::vector<std::vector<float>> weights;    // [steps][elements]
  std::vector<std::size_t> ends;              // [parameters] where each parameter ends in the flat vectors

  /// The same bits everywhere.
  bool operator==(const Trajectory&) const = default;
};

/// Makes the strategy under test. `group` reaches tensors; a strategy may be given a faulty one instead.
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

/// kSteps optimizer steps on the device under test; all ranks of the mesh, which are data-parallel ones, share the global
/// batches.
// Collective over: mesh
Trajectory train(const Problem& problem, const Mesh& mesh, const MakeStrategy& make, const TrainOptions& options = {});

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
