// The models whose steps `cohort bench kernels` takes apart.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.hpp"
#include "ops/attention_shape.hpp"

namespace cohort {

/// One micro-batch of a model. Letters as in ops/exec.hpp.
struct StepShape {
  std::string_view name;
  bool llama;  // RMS norm, rotary positions and SwiGLU, no biases; else layer norm, learned positions, GELU and biases
  Count layers, width, heads, kv_heads, ffn_width, vocabulary, tokens;
  Count samples;  // B

  ops::AttentionShape attention() const { return {samples, tokens, heads, kv_heads, width / heads}; }
  Count rows() const { return samples * tokens; }
  /// Outputs of the first layer of the feed-forward: gate and up for SwiGLU.
  Count up_width() const { return llama ? 2 * ffn_width : ffn_width; }
  /// Logits are padded and come in chunks, as in models/decoder.cpp.
  Count logit_columns() const { return (vocabulary + 127) / 128 * 128; }
  Count logit_chunks() const { return (rows() * logit_columns() + kMostLogits - 1) / kMostLogits; }
  Count logit_rows() const { return (rows() + logit_chunks() - 1) / logit_chunks(); }
  Count parameters() const {
    const Count packed = attention().packed_width();
    const Count matrices = width * (packed + width + up_width() + ffn_width);
    const Count vectors = llama ? 2 * width : packed + up_width() + 6 * width;
    const Count tables = llama ? 2 * vocabulary * width : (vocabulary + tokens) * width;
    return tables + layers * (matrices + vectors) + (llama ? width : 2 * width);
  }

  static constexpr Count kMostLogits = Count{512} << 20;
};

inline constexpr std::array<StepShape, 3> kStepShapes{{
    {"gpt2-124M", false, 12, 768, 12, 12, 3072, 50257, 1024, 64},
    {"gpt2-774M", false, 36, 1280, 20, 20, 5120, 50257, 1024, 16},
    {"llama-1b", true, 16, 2048, 32, 8, 8192, 32000, 2048, 8},
}};

}  // namespace cohort
