#include "train/cached_passes.hpp"

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
  const Tensor logits = logits_.slice(0, samples_);
  model_.last_logits(context, buffer_.put(input), logits, hooks_);
  return logits.span<float>();
}

}  // namespace cohort
