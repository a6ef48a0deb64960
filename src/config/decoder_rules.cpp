#include "config/decoder_rules.hpp"

#include "base/error.hpp"
#include "config/nearest.hpp"
#include "config/where_set.hpp"

namespace cohort {

void check_width_of_heads(const RunConfig& config, bool rotary) {
  const ModelSection& model = config.model;
  const Count unit = rotary ? 2 : 1;
  const auto fits = [&](Count heads) { return model.width % (heads * unit) == 0; };
  if (fits(model.heads)) return;
  fail(ExitCode::config, "{}model.width = {} is not a multiple of {}model.heads = {}{}; widths that fit: {}; heads that fit: {}",
       where_set(config, {"model.width", "model.heads"}), model.width, rotary ? "2 x " : "", model.heads,
       rotary ? " (RoPE needs an even head size)" : "", nearest_multiples(model.width, model.heads * unit),
       nearest_fits(model.heads, model.width, fits));
}

void resolve_kv_heads(RunConfig& config) {
  ModelSection& model = config.model;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  const auto fits = [&](Count kv_heads) { return model.heads % kv_heads == 0; };
  if (fits(model.kv_heads)) return;
  fail(ExitCode::config, "{}model.heads = {} is not a multiple of model.kv_heads = {}; kv_heads that fit: {}",
       where_set(config, {"model.kv_heads", "model.heads"}), model.heads, model.kv_heads,
       nearest_fits(model.kv_heads, model.heads, fits));
}

void check_rope_scaling(const RunConfig& config) {
  const ModelSection& model = config.model;
  if (model.rope_scaling != "llama3" || model.rope_low_freq_factor < model.rope_high_freq_factor) return;
  fail(ExitCode::config, "{}model.rope_low_freq_factor = {} is not below model.rope_high_freq_factor = {}; Llama 3.1 has 1 and 4",
       where_set(config, {"model.rope_low_freq_factor", "model.rope_high_freq_factor"}), model.rope_low_freq_factor,
       model.rope_high_freq_factor);
}

}  // namespace cohort
