// The engine of pipeline parallelism: one rank's part of a step. It executes the actions of its schedule on the chunks of the
// model that it holds, and sends what they make to the ranks that need it, in the order of messages.hpp.
//
// The data-parallel strategy stays what it is: the engine runs its micro-batches (MicroBatchRunner), with its hooks. Every rank
// of a pipeline is given the same micro-batches: the first stage reads their tokens, the last their targets, all the slots that
// key the dropout masks and the documents that attention is not to cross.
//
// A head tied to the embedding exists on the first and on the last rank. Their gradients are added up when each has been summed
// over the data-parallel ranks: the two copies then get the same bits, and stay the same.
//
// Memory. Each micro-batch under way in a chunk has an arena of its own, of which there are as many as most_in_flight() says;
// what backward needs while it runs, and what forward does not keep, is scratch in context.activations.
//
// Errors. What goes wrong on one rank is thrown there; the others wait for its messages until the job is ended (main does that).
#pragma once

#include <deque>
#include <memory>

#include "models/decoder.hpp"
#include "parallel/data/data_parallel.hpp"
#include "parallel/pipeline/messages.hpp"
#include "parallel/pipeline/recorder.hpp"
#include "tensor/buffer_pool.hpp"

namespace cohort::pipeline {

class Engine : public MicroBatchRunner, public Predictor {
 public:
  /// `model` holds chunks_of() this rank. `stages` has the ranks of the pipeline in order and is for tensors, `host_stages` the
  /// same ranks for numbers of the host; all three outlive the engine. // Collective over: pp
  Engine(Decoder& model, const Schedule& schedule, Communicator& stages, Communicator& host_stages);

  /// Makes the arenas of micro-batches under way so large, one after the other (held_peak_bytes() of a step that was counted); no
  /// step then makes them grow. Call it first.
  void reserve(const std::vector<Bytes>& bytes);
  /// Makes the messages of pipeline::most_messages(), for micro-batches of `rows` rows here, so that how many there are is no
  /// matter of timing. Call it first.
  void reserve_messages(Count rows);

  /// A step, for a strategy. Only the last rank adds to context.loss_sum: the sum over pp is the loss. // Collective over: pp
  void run(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale, DataParallel& strategy,
           StepTimers& timers) override;
  void finish(DataParallel& strategy, StepTimers& timers) override;

  void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void idle_loss(Hooks& hooks) const override { model_.idle_loss(hooks); }
  void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) override;
  std::unique_ptr<KvCache> make_cache(Count slots, Count tokens) const override { return model_.make_cache(slots, tokens); }
  Count classes() const override { return model_.classes(); }
  const ModelStorage& storage() const override { return model_.storage(); }

  /// Records the next step. // Collective over: pp
  void record_next_step() { record_ = true; }
  /// Of this rank in the step that was recorded last; see Recorder::events() and gather_events().
  std::vector<Event> events() const { return recorder_.events(stages_.rank()); }
  /// Most micro-batches that were under way at once in the last step, each in one chunk: most_in_flight() says as much.
  Count most_under_way() const { return most_under_way_; }
  /// Most that each arena of micro-batches under way has held.
  std::vector<Bytes> held_peak_bytes() const;

 private:
  class Step;

  // A micro-batch under way in a chunk.
  struct Slot {
    Arena arena;
    bool used = false;
    Tensor input = {};  // from another rank, in memory of the pool; else undefined
    Decoder::Saved saved = {};
  };
  // That of an action, a forward.
  Slot& take_slot(std::size_t action);
  // Carries a micro-batch through all chunks: run(chunk, stream before it) gives the stream behind it.
  template <class Run>
  void carry(const StepContext& context, const ModelInput& input, const Run& run);

  Decoder& model_;
  Schedule schedule_;
  Communicator& stages_;
  Communicator& host_stages_;
  std::unique_ptr<Communicator> tied_;  // the first and the last rank, if they share a weight; else null
  std::vector<Action> actions_;
  std::vector<std::size_t> places_;  // of each action, among the slots
  std::vector<Receives> receives_;
  std::deque<Slot> slots_;
  BufferPool messages_;
  Recorder recorder_;
  bool record_ = false;
  Count most_under_way_ = 0;
};

}  // namespace cohort::pipeline
