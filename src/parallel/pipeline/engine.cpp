#include "parallel/pipeline/engine.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "parallel/data/layer_spans.hpp"

namespace cohort::pipeline {

/// One step under way. Its requests end with it, before the memory that they use.
class Engine::Step : public Hooks {
 public:
  Step(Engine& engine, const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale,
       DataParallel& strategy, StepTimers& timers)
      : engine_(engine),
        context_(context),
        micro_batches_(micro_batches),
        gradient_scale_(gradient_scale),
        strategy_(strategy),
        timers_(timers) {}

  void run() {
    for (std::size_t i = 0; i < engine_.actions_.size(); ++i) {
      const Action& action = engine_.actions_[i];
      post(engine_.receives_[i].before);
      const Tensor input = await_input(action);
      post(engine_.receives_[i].during);
      if (engine_.record_) engine_.recorder_.start(action);
      strategy_.set_last_micro_batch(action.micro_batch + 1 == engine_.schedule_.micro_batches);
      const Tensor made = action.pass == Pass::forward ? forward(i, input) : backward(i, input);
      if (engine_.record_) engine_.recorder_.end();
      hand_on(action, made);
    }
    const auto scope = timers_.scope(Phase::communication);
    for (Sent& sent : sent_) sent.request.wait();
    for (Sent& sent : sent_) release(sent);
  }

  // The strategy's hooks. MPI moves data only inside its calls: testing the messages between units lets them overlap with work.
  void pre_forward(const Unit& unit) override {
    progress();
    strategy_.pre_forward(unit);
  }
  void post_forward(const Unit& unit) override { strategy_.post_forward(unit); }
  void pre_backward(const Unit& unit) override {
    progress();
    strategy_.pre_backward(unit);
  }
  void pre_gradient(const Unit& unit) override { strategy_.pre_gradient(unit); }
  void grad_ready(Parameter& parameter) override { strategy_.grad_ready(parameter); }
  void end_pass() override { strategy_.end_pass(); }

 private:
  struct Key {
    Pass pass;
    int micro_batch, chunk;
    auto operator<=>(const Key&) const = default;
  };
  struct Arriving {
    Tensor tensor;
    Request request;  // empty if this rank made it
  };
  struct Sent {
    Action action;  // that made it
    Tensor tensor;
    Request request;
  };

  static Key key_of(const Action& action) { return {action.pass, action.micro_batch, action.chunk}; }
  const ModelInput& input_of(const Action& action) const { return micro_batches_[static_cast<std::size_t>(action.micro_batch)]; }
  bool from_other_rank(const Action& action) const {
    const std::optional<Place> source = source_of(engine_.schedule_, rank(), action);
    return source && source->rank != rank();
  }
  int rank() const { return engine_.stages_.rank(); }

  /// most_messages() are enough if this rank knows which of its own were received. With NCCL the host does not: it runs ahead of
  /// the GPU. To wait there orders streams, and lets no host wait for another; with MPI it could, so there one more is made.
  Tensor take_message(const Action& action) {
    const Shape shape = engine_.model_.stream_shape(input_of(action));
    while (engine_.stages_.backend() == "nccl" && !engine_.messages_.has(shape.elements(), context_.dtype)) {
      const auto oldest =
          std::find_if(sent_.begin(), sent_.end(), [](const Sent& sent) { return sent.action.pass == Pass::backward; });
      if (oldest == sent_.end()) break;
      oldest->request.wait();
      release(*oldest);
      sent_.erase(oldest);
    }
    return engine_.messages_.take(shape.elements(), context_.dtype).reshaped(shape);
  }
  void give_back(const Tensor& message) { engine_.messages_.give_back(message.reshaped({message.elements()})); }

  /// Posts receives and launches all that was posted.
  void post(const std::vector<Receive>& receives) {
    const auto scope = timers_.scope(Phase::communication);
    for (const Receive& receive : receives) {
      const Tensor tensor = take_message(receive.action);
      arriving_[key_of(receive.action)] = {
          tensor, engine_.stages_.recv_async(tensor.raw(), tensor.elements(), tensor.dtype(), receive.from)};
    }
    progress();
  }

  void progress() {
    for (auto& [key, message] : arriving_) message.request.test();
    for (Sent& sent : sent_) {
      if (sent.request.test()) release(sent);
    }
    std::erase_if(sent_, [](const Sent& sent) { return !sent.tensor.defined(); });
  }

  /// Gradients lie in messages of their own, activations in the slot until its backward.
  void release(Sent& sent) {
    if (sent.action.pass == Pass::backward) give_back(sent.tensor);
    sent.tensor = {};
  }

  /// What the action needs from another one; undefined if nothing.
  Tensor await_input(const Action& action) {
    if (!source_of(engine_.schedule_, rank(), action)) return {};
    const auto scope = timers_.scope(Phase::communication);
    const auto found = arriving_.find(key_of(action));
    COHORT_CHECK(found != arriving_.end(), "the input of the {} of micro-batch {} through chunk {} was never posted",
                 name_of(action.pass), action.micro_batch, action.chunk);
    found->second.request.wait();
    const Tensor tensor = found->second.tensor;
    arriving_.erase(found);
    return tensor;
  }

  Tensor forward(std::size_t i, const Tensor& input) {
    const auto scope = timers_.scope(Phase::forward);
    const Action& action = engine_.actions_[i];
    Slot& slot = engine_.take_slot(i);
    slot.saved = {.memory = &slot.arena};
    slot.input = from_other_rank(action) ? input : Tensor{};
    const TraceScope span(TraceSpan::Kind::micro_batch, "forward", action.micro_batch, action.chunk);
    LayerSpans hooks(*this);
    return engine_.model_.forward_chunk(static_cast<std::size_t>(action.chunk), context_, input_of(action), input,
                                        gradient_scale_, hooks, slot.saved);
  }

  Tensor backward(std::size_t i, const Tensor& gradient) {
    const auto scope = timers_.scope(Phase::backward);
    const Action& action = engine_.actions_[i];
    Slot& slot = engine_.slots_.at(engine_.places_[i]);
    Tensor dx = gradient.defined() ? gradient : take_message(action);
    const TraceScope span(TraceSpan::Kind::micro_batch, "backward", action.micro_batch, action.chunk);
    LayerSpans hooks(*this);
    engine_.model_.backward_chunk(static_cast<std::size_t>(action.chunk), context_, input_of(action), dx, hooks, slot.saved);
    await_sent({Pass::forward, action.micro_batch, action.chunk});
    if (slot.input.defined()) give_back(slot.input);
    slot.input = {};
    slot.arena.rewind({});
    slot.used = false;
    if (target_of(engine_.schedule_, rank(), action)) return dx;
    give_back(dx);
    return {};
  }

  /// The activation has long been received where the gradient comes from; the request has to know it.
  void await_sent(const Action& action) {
    for (Sent& sent : sent_) {
      if (sent.action == action) sent.request.wait();
    }
    std::erase_if(sent_, [&](const Sent& sent) { return sent.action == action; });
  }

  void hand_on(const Action& action, const Tensor& made) {
    const std::optional<Place> target = target_of(engine_.schedule_, rank(), action);
    if (!target) return;
    if (target->rank == rank()) {
      arriving_[{action.pass, action.micro_batch, target->chunk}] = {made, {}};
      return;
    }
    const auto scope = timers_.scope(Phase::communication);
    sent_.push_back({action, made, engine_.stages_.send_async(made.raw(), made.elements(), made.dtype(), target->rank)});
  }

  Engine& engine_;
  const StepContext& context_;
  std::span<const ModelInput> micro_batches_;
  float gradient_scale_;
  DataParallel& strategy_;
  StepTimers& timers_;
  std::map<Key, Arriving> arriving_;
  std::vector<Sent> sent_;
};

/// A message each way between neighbours, all launched together. NCCL connects two ranks when it launches the first messages
/// between them, and then both must have the same directions in that launch, which the steps of a schedule do not grant.
void connect_neighbours(Communicator& stages, DeviceKind device) {
  const int size = stages.size(), rank = stages.rank();
  std::set<int> neighbours{(rank + 1) % size, (rank + size - 1) % size};
  neighbours.erase(rank);
  const Tensor sent = Tensor::zeros("pipeline.connect", {1}, DType::f32, device);
  const Tensor received = Tensor::zeros("pipeline.connect", {size}, DType::f32, device);
  std::vector<Request> requests;
  for (const int neighbour : neighbours) {
    requests.push_back(stages.send_async(sent.raw(), 1, DType::f32, neighbour));
    requests.push_back(stages.recv_async(received.slice(neighbour, neighbour + 1).raw(), 1, DType::f32, neighbour));
  }
  for (Request& request : requests) request.wait();
}

Engine::Engine(Decoder& model, const Schedule& schedule, Communicator& stages, Communicator& host_stages)
    : model_(model),
      schedule_(schedule),
      stages_(stages),
      host_stages_(host_stages),
      actions_(actions_of(schedule, stages.rank())),
      places_(places_of(actions_)),
      receives_(receives_of(schedule, stages.rank())),
      messages_("buffers.pipeline", model.storage().device),
      recorder_(model.storage().device) {
  COHORT_CHECK(schedule.stages == stages.size() && static_cast<std::size_t>(schedule.chunks) == model.chunks().size(),
               "a schedule of {} stages and {} chunks on {} ranks with {} chunks", schedule.stages, schedule.chunks,
               stages.size(), model.chunks().size());
  for (Count i = 0; i < pipeline::most_in_flight(schedule, stages.rank()); ++i)
    slots_.push_back({.arena = Arena("activations.pipeline", model.storage().device)});
  connect_neighbours(stages, model.storage().device);
  const int last = stages.size() - 1;
  const auto shares = [&](int rank) { return model.head_is_tied() && (rank == 0 || rank == last) ? 0 : -1; };
  if (last > 0) tied_ = stages.split_by(shares, stages.name() + ".tied");
}

void Engine::reserve(const std::vector<Bytes>& bytes) {
  COHORT_CHECK(bytes.size() == slots_.size(), "{} sizes for {} micro-batches under way", bytes.size(), slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot].arena.reserve(bytes[slot]);
}

void Engine::reserve_messages(Count rows) {
  messages_.reserve(most_messages(schedule_, stages_.rank()), model_.stream_shape(rows).elements(), model_.storage().compute);
}

std::vector<Bytes> Engine::held_peak_bytes() const {
  std::vector<Bytes> bytes;
  for (const Slot& slot : slots_) bytes.push_back(slot.arena.peak_bytes());
  return bytes;
}

Engine::Slot& Engine::take_slot(std::size_t action) {
  Slot& slot = slots_.at(places_[action]);
  COHORT_CHECK(!slot.used, "micro-batch {} in chunk {} has no place among {} under way", actions_[action].micro_batch,
               actions_[action].chunk, slots_.size());
  slot.used = true;
  most_under_way_ = std::max<Count>(most_under_way_, std::count_if(slots_.begin(), slots_.end(), std::mem_fn(&Slot::used)));
  return slot;
}

void Engine::run(const StepContext& context, std::span<const ModelInput> micro_batches, float gradient_scale,
                 DataParallel& strategy, StepTimers& timers) {
  COHORT_CHECK(micro_batches.size() == static_cast<std::size_t>(schedule_.micro_batches), "{} micro-batches for a schedule of {}",
               micro_batches.size(), schedule_.micro_batches);
  for (Slot& slot : slots_) {  // an error may have left some
    slot.used = false;
    slot.arena.rewind({});
  }
  most_under_way_ = 0;
  if (record_) recorder_.begin(host_stages_);
  Step(*this, context, micro_batches, gradient_scale, strategy, timers).run();
  record_ = false;
}

void Engine::finish(DataParallel& strategy, StepTimers& timers) {
  if (!tied_) return;
  const auto scope = timers.scope(Phase::communication);
  for (const OwnedSegment& segment : strategy.owned()) {
    for (const OwnedPiece& piece : segment.pieces) {
      if (!piece.parameter->copied) continue;
      const Tensor gradient = segment.gradients.slice(piece.at, piece.at + piece.elements);
      tied_->all_reduce(gradient.raw(), gradient.elements(), gradient.dtype(), ReduceOp::sum);
    }
  }
}

template <class Run>
void Engine::carry(const StepContext& context, const ModelInput& input, const Run& run) {
  const Arena::Scope scratch(*context.activations);
  const int rank = stages_.rank();
  Tensor stream;
  for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const Action action{Pass::forward, 0, chunk};
    const std::optional<Place> source = source_of(schedule_, rank, action);
    if (source && source->rank != rank) {
      stream = context.take(model_.stream_shape(input));
      stages_.recv(stream.raw(), stream.elements(), stream.dtype(), source->rank);
    }
    stream = run(static_cast<std::size_t>(chunk), stream);
    const std::optional<Place> target = target_of(schedule_, rank, action);
    if (target && target->rank != rank) stages_.send(stream.raw(), stream.elements(), stream.dtype(), target->rank);
  }
}

void Engine::loss(const StepContext& context, const ModelInput& input, Hooks& hooks) {
  carry(context, input, [&](std::size_t chunk, const Tensor& x) { return model_.loss_chunk(chunk, context, input, x, hooks); });
}

void Engine::last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) {
  carry(context, input,
        [&](std::size_t chunk, const Tensor& x) { return model_.last_logits_chunk(chunk, context, input, x, logits, hooks); });
  host_stages_.broadcast(logits.raw(), logits.elements(), logits.dtype(), schedule_.stages - 1);
}

}  // namespace cohort::pipeline
