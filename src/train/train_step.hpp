// A training step on one rank: the model, its optimizer and the data-parallel strategy, and how a step moves them. The
// only place that picks a strategy. What is trained on, logged and saved is the business of trainer.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "checkpoint/load/shards.hpp"
#include "config/run_config.hpp"
#include "mesh/mesh.hpp"
#include "models/model.hpp"
#include "observe/timers.hpp"
#include "optim/loss_scale.hpp"
#include "optim/optimizer.hpp"
#include "optim/step_scalars.hpp"
#include "parallel/context/ring_attention.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/pipeline/engine.hpp"
#include "parallel/tensor/tensor_parallel_group.hpp"

namespace cohort {

/// What one step did; all but own_loss are the same on every rank.
struct StepResult {
  double loss = 0.0;           // nats, mean over the valid targets of the global batch
  double own_loss = 0.0;       // the same over this rank's valid targets only
  double gradient_norm = 0.0;  // before clipping
  double learning_rate = 0.0;
  Count valid_targets = 0;  // of the global batch
  bool skipped = false;     // loss or gradient were not finite, and the weights are those of before
  bool at_floor = false;    // fp16: skipped although the loss scale is at its minimum
};

/// One step's share of this rank.
struct StepInput {
  Count step = 0;  // 0 is the first
  std::span<const ModelInput> micro_batches;
  Count own_valid_targets = 0;
  Count global_valid_targets = 0;  // over all ranks
  bool poisoned = false;           // a fault that was asked for: what every unit of this rank puts out becomes NaN
  /// If set, is shown what every unit of this rank puts out in forward, of each micro-batch: StepContext::inspect.
  std::function<void(const std::string& unit, const Tensor& output)> inspect = {};
};

/// The mesh that [parallel] asks for.
MeshShape mesh_shape_of(const ParallelSection& config);

/// Parts that tests put into the step, faulty ones among them, in the place of those that the run file names. What is empty is
/// made as it says.
struct StepParts {
  TensorParallel* tensor_parallel = nullptr;  // must outlive the step
  /// Without memory. A Decoder if there is a pipeline.
  std::function<std::unique_ptr<Model>(TensorParallel& parallel)> declare_model = {};
  std::function<std::unique_ptr<DataParallel>(Model& model, Communicator& group)> strategy = {};
  /// Given, it is made of one stage, too.
  std::function<std::unique_ptr<pipeline::Engine>(Decoder& model, const pipeline::Schedule& schedule, Communicator& stages,
                                                  Communicator& host_stages)>
      engine = {};
};

/// What each arena of a step holds at most (count_step()).
struct StepArenas {
  Bytes step = 0;                     // all activations; in a pipeline, those that live within one pass
  std::vector<Bytes> under_way = {};  // pipelines: of micro-batches under way
  ActivationOffload::Memory offload = {};
};
/// What reserve() adds to `step` and each of `under_way`: an evaluation may need a little more than a step.
inline constexpr Bytes kArenaReserve = kMiB;

class TrainStep {
 public:
  /// Builds this rank's part of the model with its initial values on the device of the run. `config` is validated and its
  /// vocabulary known; it and the mesh outlive this. On a GPU a step is counted first, and the arenas reserved: throws
  /// Error(memory) with all figures if the device is too small.
  // Collective over: mesh
  TrainStep(const RunConfig& config, const Mesh& mesh, const StepParts& parts = {});

  /// Puts one optimizer step on its way: on a GPU the host does not wait, and has time for the next step's data (unless the
  /// optimizer was offloaded: it runs on the host, and its phase then holds the wait for the device, too). A step whose
  /// loss or gradient is not finite leaves weights and optimizer as they were. The micro-batches must stay until finish_step().
  // Collective over: mesh
  void start_step(const StepInput& input, StepTimers& timers) {
    compute_gradients(input, timers);
    update(timers);
  }
  /// The two halves of start_step(): the gradients of all micro-batches, reduced; and what the optimizer makes of the gradients
  /// that are there. // Collective over: mesh
  void compute_gradients(const StepInput& input, StepTimers& timers);
  void update(StepTimers& timers);
  /// Waits for the step. Throws Error(internal) if a peer is lost meanwhile. // Collective over: mesh
  StepResult finish_step(StepTimers& timers);
  /// Both. Throws SharedError(training) as well if fp16 overflows at the smallest loss scale: who takes the two halves looks at
  /// StepResult::at_floor. // Collective over: mesh
  StepResult run(const StepInput& input, StepTimers& timers);

  /// Name of the first unit on this rank whose output is not finite for one of these micro-batches, going forward; "" if all are.
  // Collective over: mesh
  std::string first_unit_not_finite(std::span<const ModelInput> micro_batches);
  /// Name of the parameter nearest to the loss, of those that this rank owns, whose gradient of the last step (of all ranks
  /// together) is not finite; "" if all are.
  std::string gradient_not_finite() const;

  /// What this rank holds of the model.
  Model& model() { return *model_; }
  /// The whole model, to evaluate it and to generate with it.
  Predictor& predictor() { return pipeline_ ? static_cast<Predictor&>(*pipeline_) : *model_; }
  /// Null if there is one stage.
  pipeline::Engine* pipeline() { return pipeline_.get(); }
  DataParallel& strategy() { return *strategy_; }
  /// Attention over the ranks that hold parts of the same samples; null if samples are whole.
  const RingAttention* ring() const { return ring_.get(); }
  /// All that this rank holds of the model and the optimizer's state.
  std::vector<StateShard> shards() const;
  /// The gradients of the last step that this rank owns, under the names and in the order of the values.
  std::vector<StateShard> gradient_shards() const;
  /// What this rank's optimizer updates; the gradients are those of the last step, before clipping and times the loss scale.
  const std::vector<OwnedSegment>& owned() const { return optimizer_->owned(); }
  /// Of the ranks that hold the same elements of owned(), the first; of frozen weights, which are whole, that of the group.
  bool is_first_holder() const { return replica().index == 0; }
  bool is_first_of_group() const { return group_.rank() == 0; }
  /// Takes the weights of a checkpoint or a run, and nothing else of it; of one without adapters all but these. Errors as
  /// load_shards(). // Collective over: mesh
  void load_weights(const std::filesystem::path& checkpoint);
  /// To be called after the shards were loaded. // Collective over: mesh
  void shards_changed();
  Arena& activations() { return activations_; }
  /// Makes each arena one piece, large enough for all steps to come. Call it before the first, once; on a GPU it is done.
  void reserve(const StepArenas& arenas);
  /// What the arenas have held at most.
  StepArenas held_arenas() const;
  const ops::Exec& exec() const { return exec_; }
  DeviceKind device() const { return exec_.device; }
  /// The factor of the loss in fp16; 1 in other policies.
  const LossScale& loss_scale() const { return loss_scale_; }
  /// Goes on with the factor of a checkpoint.
  void restore_loss_scale(double scale, Count good_steps) { loss_scale_.restore(scale, good_steps); }

 private:
  // Threads, time-outs, tuning; on a GPU, whether it is large enough, and for which arenas.
  StepArenas set_up_device() const;
  void build_model(const StepParts& parts);
  void build_pipeline(const StepParts& parts);
  void build_optimizer();
  Communicator* group_of_holders(Communicator* shards, int count);
  StepContext context(Count step) const;
  std::vector<StateShard> frozen_shards() const;
  Replica replica() const;
  // Adds a device's scalar up over an axis, if there is more than one rank on it.
  void sum_over(Axis axis, const Tensor& scalar) const;

  const RunConfig& config_;
  const Mesh& mesh_;
  Communicator& group_;  // ranks with the same weights and other tokens
  bool keeps_tuning_;    // this rank writes what the first step's products were tuned to
  ops::Exec exec_;
  mutable Arena activations_;
  StepScalars scalars_;
  LossScale loss_scale_;
  std::unique_ptr<RingAttention> ring_;
  std::unique_ptr<ActivationOffload> offload_;            // null: activations stay on the device
  std::unique_ptr<TensorParallelGroup> tensor_parallel_;  // null: matrices are whole
  std::unique_ptr<Model> model_;
  Mesh::Group holders_;  // of matrices that are updated whole, where no other group has just them
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<DataParallel> strategy_;
  std::unique_ptr<pipeline::Engine> pipeline_;
  StepInput running_;
};

}  // namespace cohort
