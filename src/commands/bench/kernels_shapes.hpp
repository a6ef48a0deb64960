// The models whose steps `cohort bench kernels` takes apart, and which `cohort bench step` knows by name: those of the families.
#pragma once

#include <map>
#include <string>

#include "base/units.hpp"
#include "config/run_config.hpp"
#include "models/decoder.hpp"
#include "ops/attention_shape.hpp"

namespace cohort {

/// Of all families (models/family.hpp), by name: "gpt2-124m".
std::map<std::string, ModelSection> known_models();

/// One micro-batch of a decoder. Letters as in ops/exec.hpp.
struct StepShape {
  std::string name;
  DecoderSpec decoder;
  Count parameters = 0;
  Count samples = 0;  // B

  Count layers() const { return decoder.layers; }
  Count width() const { return decoder.width; }  // C
  Count ffn_width() const { return decoder.block.feed_forward.ffn_width; }
  Count vocabulary() const { return decoder.vocabulary; }
  Count tokens() const { return decoder.tokens; }
  Count rows() const { return samples * tokens(); }
  ops::AttentionShape attention() const {
    const AttentionSpec& spec = decoder.block.attention;
    return {samples, tokens(), spec.heads, spec.kv_heads, spec.head_size};
  }
  bool swiglu() const { return decoder.block.feed_forward.kind == FeedForwardKind::swiglu; }
  /// Outputs of the first layer of the feed-forward: gate and up for SwiGLU.
  Count up_width() const { return swiglu() ? 2 * ffn_width() : ffn_width(); }
  /// Logits are padded and come in chunks, as in models/decoder_sizes.cpp.
  Count logit_columns() const { return (vocabulary() + 127) / 128 * 128; }
  Count logit_chunks() const { return (rows() * logit_columns() + kMostLogits - 1) / kMostLogits; }
  Count logit_rows() const { return (rows() + logit_chunks() - 1) / logit_chunks(); }

  static constexpr Count kMostLogits = Count{512} << 20;
};

/// The known model `name`; `samples` 0: a power of two that keeps a large card busy, 64 of gpt2-124m. Throws Error(usage) for a
/// name that is not known.
StepShape step_shape(const std::string& name, Count samples);

}  // namespace cohort
