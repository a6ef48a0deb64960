// Data parallelism: every rank runs the whole model on its own samples; before the optimizer steps, the gradients of
// all ranks are added up. The strategies differ only in when and how they add.
//
// Why a sum and not an average: each rank scales its gradient by 1 / (valid targets of the whole global batch) in forward(), so
// the sum over ranks and micro-batches is the gradient of the mean loss, whatever the number of ranks and micro-batches, also
// when some ranks have fewer valid targets than others. An average of per-rank means would be wrong there.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "models/model.hpp"
#include "observe/timers.hpp"
#include "tensor/owned.hpp"

namespace cohort {

class DataParallel;

/// Takes the micro-batches of a step through forward and backward in an order of its own: a pipeline.
class MicroBatchRunner {
 public:
  virtual ~MicroBatchRunner() = default;
  /// Every model pass calls the hooks of `strategy`, and is told by strategy.set_last_micro_batch() before it whether it is the
  /// last one to add to its part of the gradients. The contract is that of DataParallel::accumulate_gradients.
  virtual void run(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale,
                   DataParallel& strategy, StepTimers& timers) = 0;
  /// After that, when the strategy has summed the gradients of what this rank owns over its group.
  virtual void finish(DataParallel& strategy, StepTimers& timers) = 0;
};

class DataParallel : public Hooks {
 public:
  DataParallel(Model& model, Communicator& group) : model_(model), group_(group) {}

  /// "monolith", "manual", "naive", "hooks", "bucketed", "zero1", "zero2", "zero3".
  virtual std::string_view name() const = 0;

  /// Forward and backward of this rank's micro-batches of one step. Afterwards the gradients of what this rank owns are those of
  /// `gradient_scale` times the loss summed over all ranks' micro-batches. All ranks of the group must give as many
  /// micro-batches. Adds this rank's own loss to context.loss_sum. On a GPU all of it is put on the streams; the host does not
  /// wait. // Collective over: dp
  void accumulate_gradients(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale,
                            StepTimers& timers);

  /// From now on `runner`, which must outlive this object's last step, runs the micro-batches. Without it they run one after the
  /// other. Not for strategies that run micro-batches in a way of their own (manual) or reduce after each (zero2, zero3).
  void use(MicroBatchRunner& runner) { runner_ = &runner; }
  /// For the runner. True: the passes that follow are the last to add to the gradients that they touch.
  void set_last_micro_batch(bool last) { last_micro_batch_ = last; }

  /// Keeps the group that it was made with, if nobody else does.
  void keep(std::unique_ptr<Communicator> group) { kept_ = std::move(group); }

  /// The part of the model that this rank's optimizer updates: all of it, unless the strategy shards.
  virtual std::vector<OwnedSegment> owned() { return {whole_of(model_.parameters())}; }
  /// The ranks that own one model between them; null if each owns all of it.
  virtual Communicator* shard_group() { return nullptr; }
  /// Called after the optimizer changed the weights (or a checkpoint replaced them, 16-bit copies included).
  // Collective over: dp
  virtual void weights_changed() {}

 protected:
  /// Sets the gradients to zero.
  virtual void begin_gradients() { model_.parameters().zero_gradients(); }
  /// Forward and backward of one micro-batch.
  virtual void run_micro_batch(const StepContext& context, const ModelInput& input, float gradient_scale, StepTimers& timers);
  /// That of `model` with these hooks, which records the layers for a trace.
  void run_through(Model& model, const StepContext& context, const ModelInput& input, float gradient_scale, StepTimers& timers);
  /// After the last backward: gradients must be global when it returns.
  virtual void finish_gradients(StepTimers& timers) = 0;

  /// True during the backward pass of the step's last micro-batch: only then are gradients complete.
  bool last_micro_batch() const { return last_micro_batch_; }
  /// The timers of the step in progress, for use in hooks.
  StepTimers& timers() const { return *timers_; }

  Model& model_;
  Communicator& group_;

 private:
  std::unique_ptr<Communicator> kept_;
  MicroBatchRunner* runner_ = nullptr;
  bool last_micro_batch_ = false;
  int micro_batch_ = 0;  // that runs, if there is no runner
  StepTimers* timers_ = nullptr;
};

}  // namespace cohort
