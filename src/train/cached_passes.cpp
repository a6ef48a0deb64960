#include "train/cached_passes.hpp"

#include <algorithm>
#include <typeinfo>

#include "observe/flight_recorder.hpp"
#include "train/nonfinite.hpp"

namespace cohort {

CachedPasses::CachedPasses(Predictor& model, Count slots, Count tokens, ops::Kernels kernels, Hooks& hooks)
    : model_(model),
      hooks_(hooks),
      kernels_(kernels),
      cache_(model.make_cache(slots, tokens)),
      activations_("generate", model.storage().device),
      buffer_(model.storage().device, model.classes()),
      logits_(Tensor::zeros("generate.logits", {slots, model.classes()})) {
  COHORT_CHECK(cache_ != nullptr, "generate: the model is no decoder");
}

std::span<const float> CachedPasses::run_prompt(Count slot, std::span<const std::int32_t> tokens) {
  cache_->begin_prompt(slot, static_cast<Count>(tokens.size()));
  tokens_.assign(tokens.begin(), tokens.end());
  samples_ = 1;
  row_by_row_ = false;
  return run({});
}

std::span<const float> CachedPasses::run_tokens(std::span<const Row> rows) {
  std::vector<std::int32_t> slots, positions;
  tokens_.clear();
  for (const Row& row : rows) {
    slots.push_back(static_cast<std::int32_t>(row.slot));
    positions.push_back(static_cast<std::int32_t>(row.position));
    tokens_.push_back(row.token);
  }
  cache_->begin_tokens(slots, positions);
  samples_ = static_cast<Count>(rows.size());
  row_by_row_ = true;
  return run({});
}

std::string CachedPasses::first_unit_not_finite() {
  FirstNotFinite search;
  run({.inspect = search.inspector()});
  return search.unit();
}

std::span<const float> CachedPasses::run(StepContext context) {
  context.exec = {.device = model_.storage().device, .kernels = kernels_, .row_by_row = row_by_row_};
  context.dtype = model_.storage().compute;
  context.activations = &activations_;
  context.cache = cache_.get();
  context.heartbeat = FlightRecorder::heartbeat_of_process;
  ModelInput input;
  input.samples = samples_;
  input.inputs = tokens_;
  input = buffer_.put(input);
  const bool no_hooks = typeid(hooks_) == typeid(Hooks);  // the base class, which does nothing
  if (row_by_row_ && no_hooks && !context.inspect && model_.recordable()) return run_recorded(context, input);
  const Tensor logits = logits_.slice(0, samples_);
  model_.last_logits(context, input, logits, hooks_);
  return logits.span<float>();
}

std::span<const float> CachedPasses::run_recorded(const StepContext& context, const ModelInput& input) {
  const Arena::Scope scratch(activations_);
  const Recorded now{samples_, ops::parts_of(cache_->places()), input.inputs.data()};
  const auto pass = [&] { logits_on_device_ = model_.logits_on_device(context, input); };
  if (now != last_) {  // the first of its kind makes what is made at first use, and lets memory grow
    graph_ = {};
    pass();
  } else {
    if (!graph_.recorded()) graph_.record(pass);
    graph_.launch();
  }
  last_ = now;
  const Count columns = logits_on_device_.shape().columns();
  if (!logits_from_device_.defined()) logits_from_device_ = Tensor::pinned("generate.logits", {logits_.shape().rows(), columns});
  const Tensor there = logits_from_device_.slice(0, samples_), logits = logits_.slice(0, samples_);
  there.copy_from(logits_on_device_);
  for (Count r = 0; r < samples_; ++r)
    std::copy_n(there.f32() + r * columns, logits.shape().columns(), logits.f32() + r * logits.shape().columns());
  return logits.span<float>();
}

}  // namespace cohort
