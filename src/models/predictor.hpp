// What evaluation and text generation ask of a model, wherever its parts are: a Model, or a pipeline of ranks that hold one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "nn/context.hpp"
#include "nn/hooks.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// One micro-batch as a model sees it. Token models read inputs and targets [samples * tokens]; the mlp reads features
/// [samples * inputs] and one target a sample. A target of ops::kIgnoredTarget counts nothing.
struct ModelInput {
  Count samples = 0;
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
  std::span<const float> features;
  std::span<const Count> slots;    // [samples] positions in the global batch; key the dropout masks
  PackedDocuments documents = {};  // of token models

  /// Samples [begin, end) of this batch.
  ModelInput slice(Count begin, Count end) const;
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  /// Adds the sum of the loss (nats) over the counted targets to context.loss_sum: in a pipeline, only on its last rank. No
  /// gradients, no dropout, few activations. Calls the hooks of forward. // Collective over: pp, tp
  virtual void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) = 0;
  /// The hooks of loss, for ranks that have no samples while others have.
  virtual void idle_loss(Hooks& hooks) const = 0;
  /// Logits [samples, V] (fp32, on the host) of what follows each sample's last token (mlp: of its class), without dropout.
  /// Calls the hooks of forward. With context.cache, which make_cache() gave, the samples are new tokens of texts: one sample
  /// with KvCache::begin_prompt(), a sample a token with begin_tokens(). // Collective over: pp, tp
  virtual void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) = 0;

  /// Whether logits_on_device() is there: all of the model is on this rank, on a GPU.
  virtual bool recordable() const { return false; }
  /// last_logits() of new tokens with a cache, as work for the device alone, which gpu::Graph can record: logits [rows, >= V]
  /// (fp32) stay on the device, in context.activations. There are no hooks.
  virtual Tensor logits_on_device(const StepContext& context, const ModelInput& input);

  /// A cache for `slots` texts of `tokens` tokens, of the layers that are here. Null of what is no decoder.
  virtual std::unique_ptr<KvCache> make_cache(Count slots, Count tokens) const = 0;

  /// Width of the logits.
  virtual Count classes() const = 0;
  /// Where the parameters are and what type the activations have.
  virtual const ModelStorage& storage() const = 0;
};

}  // namespace cohort
