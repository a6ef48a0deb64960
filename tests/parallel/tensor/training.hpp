// Trains a small model for some real steps (train/train_step.hpp), whole on one rank or in tensor-parallel parts, and keeps what
// came of every step as whole tensors, so that two trainings can be compared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_communicator.hpp"
#include "models/model.hpp"
#include "parallel/step_support.hpp"
#include "parallel/tensor/tensor_parallel_group.hpp"
#include "support/device_model.hpp"

namespace cohort::test {

/// All ranks as one tensor-parallel group.
class Ranks {
 public:
  // Collective over: world
  Ranks() : world_(make_world_communicator()), mesh_(mesh_of(*world_, MeshShape(1, 1, 1, world_->size()))) {}
  /// For numbers of the host.
  Communicator& host() const { return *world_; }
  /// For tensors, where the test computes.
  Communicator& tensors() const { return mesh_->axis(Axis::tp); }
  const Mesh& mesh() const { return *mesh_; }
  int size() const { return world_->size(); }

 private:
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Mesh> mesh_;
};

/// The forms of tensor parallelism.
struct Form {
  bool sequence = false, overlap = false;

  std::string name() const { return overlap ? "_overlap" : sequence ? "_sequence" : ""; }
};
inline constexpr Form kSequence{.sequence = true}, kOverlap{.sequence = true, .overlap = true};
inline constexpr Form kForms[] = {{}, kSequence, kOverlap};

/// 12 heads, so that 2, 3 and 4 ranks divide them, and a vocabulary that none of them does.
ModelSection gpt2_section(double dropout, bool tied = true);
ModelSection llama_section(Count kv_heads, bool tied = false);

/// Micro-batches of a step: every rank of the group runs both.
inline constexpr Count kAccumulation = 2, kSamples = 2;
/// Micro-batch `index` of all that there are; some of its targets are ignored.
class Batch {
 public:
  Batch(const ModelSection& model, Count index, Count samples = kSamples);
  ModelInput input() const { return {samples_, inputs_, targets_, {}, slots_}; }
  Count valid_targets() const;

 private:
  Count samples_;
  std::vector<std::int32_t> inputs_, targets_;
  std::vector<Count> slots_;
};

struct Training {
  std::vector<double> losses;           // of each step
  std::vector<WholeTensors> gradients;  // of each step: all parameters by name
  std::vector<WholeTensors> weights;    // after each step
  bool copies_agree = true;             // every rank that holds a part has the bits of the one that counts

  bool operator==(const Training&) const = default;
};

/// Called before training with a model's registry.
using Prepare = std::function<void(const ParameterRegistry& parameters)>;

inline constexpr Count kSteps = 3;
inline constexpr double kRate = 3e-3;

/// kSteps steps of AdamW, of kAccumulation micro-batches each, by all ranks of the mesh as the parts of one model.
// Collective over: mesh
Training train(const ModelSection& model, TensorParallel& parallel, const Mesh& mesh, DType compute = DType::f32,
               const Prepare& prepare = {});
/// The yardstick: no parts, no communication.
Training train_alone(const ModelSection& model, DType compute = DType::f32);

/// How far a training is from the yardstick, at worst over all steps.
struct Distance {
  double losses = 0.0;     // relative
  double gradients = 0.0;  // relative to the largest of the same tensor, or to a tenth of the largest of all if that is more
  double weights = 0.0;    // likewise
  std::string worst;       // the tensor whose gradient is farthest
  // Euclidean, of all tensors together. A single element may be the small difference of large terms, of which 16 bits keep
  // little.
  double all_gradients = 0.0;
  double all_weights = 0.0;

  bool within(double tolerance) const { return losses <= tolerance && gradients <= tolerance && weights <= tolerance; }
  bool within_on_the_whole(double tolerance) const {
    return losses <= tolerance && all_gradients <= tolerance && all_weights <= tolerance;
  }
  std::string str() const;
};
Distance distance(const Training& training, const Training& yardstick);

/// fp32 sums of up to 100 terms in another order differ by a few 1e-7 of the largest term; three steps of AdamW carry them on.
inline constexpr double kTolerance = 1e-5;

}  // namespace cohort::test
