// The decoder that gpt2 and llama are instances of: embedding, blocks, final norm, output head with the loss.
#pragma once

#include <optional>

#include "models/model.hpp"
#include "nn/block.hpp"
#include "nn/norm.hpp"

namespace cohort {

struct DecoderSpec {
  Count layers = 0;      // L
  Count width = 0;       // C
  Count vocabulary = 0;  // V
  Count tokens = 0;      // T, the longest sample
  bool learned_positions = false;
  bool tied_head = false;  // the head's weight is the token embedding's
  double dropout = 0.0;    // of the embedding
  double init_std = 0.02;
  BlockSpec block;
};

class Decoder : public Model {
 public:
  /// Declares the parameters; make_model then allocates them.
  Decoder(std::string kind, const DecoderSpec& spec, const Placement& placement);

  void forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) override;
  void backward(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) override;
  Count classes() const override { return spec_.vocabulary; }
  double flops_per_token(Count tokens) const override;
  Bytes activation_bytes(Count samples) const override;

 private:
  // Embeds and runs the blocks and the final norm. With `saved`, keeps what backward needs.
  struct Saved {
    std::vector<Block::Saved> blocks;
    Tensor last;  // [R, C] output of the last block
    Norm::Saved norm;
    Tensor dnormed;  // [R, C] gradient of the final norm's output, computed together with the loss
  };
  Tensor run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved);
  // Adds the loss over all rows, in chunks so that the logits of the whole batch never exist at once. With dnormed, also its
  // gradient and the head's.
  void head_loss(const StepContext& context, const Tensor& normed, std::span<const std::int32_t> targets, float gradient_scale,
                 const Tensor& dnormed);
  // Of each sample, the tokens that are here.
  Count tokens_of(const ModelInput& input) const;
  // Accumulates the gradients of the token embedding and the position table.
  void embedding_backward(const StepContext& context, const ModelInput& input, const Tensor& dx);

  // The head's weight, or its gradient, with the zero rows that follow it where the vocabulary is padded: [logit_columns(), C].
  Tensor head_rows(Tensor Parameter::*tensor) const;
  // Rows of one chunk of logits, and elements of one row: the vocabulary, on a GPU padded.
  Count logit_rows(Count rows) const;
  Count logit_columns() const;

  DecoderSpec spec_;
  Parameter* embedding_;            // [V, C]
  Parameter* positions_ = nullptr;  // [T, C]
  std::vector<Block> blocks_;
  std::optional<Norm> norm_;
  Parameter* head_;  // [V, C]; the embedding if tied
  Saved saved_;
};

}  // namespace cohort
