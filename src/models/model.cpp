#include "models/model.hpp"

namespace cohort {

ModelInput ModelInput::slice(Count begin, Count end) const {
  const auto part = [&](auto values) {
    const std::size_t per_sample = samples == 0 ? 0 : values.size() / static_cast<std::size_t>(samples);
    return values.subspan(static_cast<std::size_t>(begin) * per_sample, static_cast<std::size_t>(end - begin) * per_sample);
  };
  return {end - begin,    part(inputs), part(targets),
          part(features), part(slots),  {part(documents.first_keys), part(documents.positions)}};
}

Tensor Predictor::logits_on_device(const StepContext&, const ModelInput&) {
  fail(ExitCode::internal, "a pass that is not recordable() was to be recorded");
}

void Model::idle_loss(Hooks& hooks) const {
  for (const Unit& unit : units_) {
    hooks.pre_forward(unit);
    hooks.post_forward(unit);
  }
  hooks.end_pass();
}

}  // namespace cohort
