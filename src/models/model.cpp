#include "models/model.hpp"

#include "models/gpt2.hpp"
#include "models/llama.hpp"
#include "models/mlp.hpp"

namespace cohort {

ModelInput ModelInput::slice(Count begin, Count end) const {
  const auto part = [&](auto values) {
    const std::size_t per_sample = samples == 0 ? 0 : values.size() / static_cast<std::size_t>(samples);
    return values.subspan(static_cast<std::size_t>(begin) * per_sample, static_cast<std::size_t>(end - begin) * per_sample);
  };
  return {end - begin, part(inputs), part(targets), part(features), part(slots)};
}

void Model::idle_loss(Hooks& hooks) const {
  for (const Unit& unit : units_) {
    hooks.pre_forward(unit);
    hooks.post_forward(unit);
  }
  hooks.end_pass();
}

std::unique_ptr<Decoder> declare_decoder(const ModelSection& config, const Placement& placement, TensorParallel& parallel,
                                         std::span<const ChunkSpec> chunks) {
  if (config.kind == "gpt2") return make_gpt2(config, placement, parallel, chunks);
  if (config.kind == "llama") return make_llama(config, placement, parallel, chunks);
  fail(ExitCode::config, "model.kind = \"{}\" cannot be cut into pipeline stages: gpt2 and llama can", config.kind);
}

std::unique_ptr<Model> declare_model(const ModelSection& config, const Placement& placement, TensorParallel& parallel) {
  if (config.kind == "gpt2" || config.kind == "llama") return declare_decoder(config, placement, parallel, {});
  COHORT_CHECK(config.kind != "mlp" || parallel.parts() == 1, "the mlp has no tensor parallelism, but {} parts",
               parallel.parts());
  if (config.kind == "mlp") return std::make_unique<Mlp>(config, placement);
  fail(ExitCode::config, "model.kind = \"{}\": known are gpt2, llama, mlp", config.kind);
}

std::unique_ptr<Model> make_model(const ModelSection& config, std::uint64_t seed, const Placement& placement,
                                  TensorParallel& parallel) {
  std::unique_ptr<Model> model = declare_model(config, placement, parallel);
  model->parameters().allocate(seed, placement);
  return model;
}

Count count_parameters(const ModelSection& config) { return declare_model(config, {})->parameters().elements(); }

Bytes count_activation_bytes(const ModelSection& config, Count samples, const Placement& placement, TensorParallel& parallel) {
  return declare_model(config, placement, parallel)->activation_bytes(samples, config.context);
}

}  // namespace cohort
