// The decoder of which families are instances: embedding, blocks, final norm, output head with the loss.
//
// An object holds the whole model, or chunks of consecutive layers (pipeline parallelism; parallel/pipeline says who holds
// which). Its parameters have the names and ids that they have in the whole model. The functions of Model run the whole model;
// those that end in _chunk, of which they consist, run one chunk of a micro-batch each, and the caller carries the stream from
// one chunk to the next and its gradient back. Several micro-batches may be under way: what forward keeps for backward is the
// caller's.
#pragma once

#include <optional>

#include "models/model.hpp"
#include "nn/block.hpp"
#include "nn/norm_layer.hpp"
#include "nn/vocabulary.hpp"

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
  BlockSpec block;  // whose layers have the adapters of `lora`, too
  // How many layers recompute what block.recompute says, and the others nothing. With offload the others alone are offloaded.
  Count recomputed_layers = 0;
  bool offload = false;
  /// Whether a layer does. The first ones: when backward reaches them and needs memory for it, what the others kept is gone. With
  /// offload the others are spread evenly among them: each one's copies have the time of several layers.
  bool recomputes(Count layer) const;
  LoraSpec lora = {};
};

/// Consecutive layers, with what stands before the first of the model and behind the last.
struct ChunkSpec {
  Count first_layer = 0;
  Count end_layer = 0;    // one beyond the last
  bool embeds = false;    // has the embeddings: starts from tokens
  bool has_head = false;  // has the final norm and the head: ends with the loss

  Count layers() const { return end_layer - first_layer; }
  bool operator==(const ChunkSpec&) const = default;
};

class Decoder : public Model {
 public:
  /// Declares the parameters, of this part; make_model then allocates them. `chunks` ascend; none: one chunk that is the whole
  /// model. A chunk with a tied head but no embedding among them has a copy of the embedding (Parameter::copied), which does not
  /// count: the gradients of both must be summed before the optimizer.
  Decoder(std::string kind, const DecoderSpec& spec, const ModelStorage& storage, TensorParallel& parallel,
          std::span<const ChunkSpec> chunks = {});

  void forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) override;
  void backward(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) override;
  bool recordable() const override;
  Tensor logits_on_device(const StepContext& context, const ModelInput& input) override;
  std::unique_ptr<KvCache> make_cache(Count slots, Count tokens) const override;
  Count classes() const override { return spec_.vocabulary; }
  /// Of the whole model.
  double flops_per_token(Count tokens) const override;
  bool loss_computes_head_gradient() const override { return true; }

  const std::vector<ChunkSpec>& chunks() const { return chunks_; }
  /// How many of a chunk's blocks recompute something.
  Count checkpointed_layers(const ChunkSpec& chunk) const;
  /// Whether the head's weight is the embedding's: in a pipeline, of which both ends then have a copy.
  bool head_is_tied() const { return spec_.tied_head; }
  /// Of the stream between chunks, for a micro-batch of `rows` rows here: the own ones (nn/tensor_parallel.hpp), and the width.
  Shape stream_shape(Count rows) const { return {parallel_.own_rows(rows), spec_.width}; }
  Shape stream_shape(const ModelInput& input) const { return stream_shape(static_cast<Count>(input.inputs.size())); }

  /// What the forward pass of a micro-batch through a chunk keeps for its backward pass.
  struct Saved {
    Arena* memory = nullptr;  // where it lies; set by the caller. context.activations is only for scratch, and may be the same
    std::vector<Block::Saved> blocks = {};
    std::vector<ActivationOffload::Kept> offloaded = {};  // of each block that is, with context.offload
    Tensor last = {};                                     // [own rows, C] output of the last block
    Norm::Saved norm = {};
    Tensor dnormed = {};  // [own rows, C] gradient of the final norm's output, computed together with the loss
  };
  /// Model::forward of a chunk. `x` [own rows, C] is what the chunk before gave (undefined if this one embeds), and must stay as
  /// it is until backward. Returns the stream behind the chunk, which lies in saved.memory; undefined if it has the head.
  // Collective over: tp
  Tensor forward_chunk(std::size_t chunk, const StepContext& context, const ModelInput& input, const Tensor& x,
                       float gradient_scale, Hooks& hooks, Saved& saved);
  /// Model::backward of a chunk. `dx` [own rows, C] holds the gradient of what forward_chunk returned (anything if that was
  /// nothing) and, at the end, that of its x (anything if there was none). // Collective over: tp
  void backward_chunk(std::size_t chunk, const StepContext& context, const ModelInput& input, const Tensor& dx, Hooks& hooks,
                      const Saved& saved);
  /// Model::loss and Model::last_logits of a chunk. Only the one with the head adds to the loss and writes logits; the others
  /// return the stream behind them, in memory of context.activations. // Collective over: tp
  Tensor loss_chunk(std::size_t chunk, const StepContext& context, const ModelInput& input, const Tensor& x, Hooks& hooks);
  Tensor last_logits_chunk(std::size_t chunk, const StepContext& context, const ModelInput& input, const Tensor& x,
                           const Tensor& logits, Hooks& hooks);

 private:
  void declare_embedding();
  static void tell_ready(const Unit& unit, const Parameter* but, Hooks& hooks);
  void declare_blocks(Count first, Count end);
  void declare_head();
  Count head_padding() const { return (logit_columns() - vocabulary_.own_entries()) * spec_.width; }
  // The chunk of an object that holds the whole model.
  std::size_t only_chunk() const;
  // Places in units_ and in blocks_ of the first block of a chunk.
  std::size_t first_unit(std::size_t chunk) const;
  std::size_t first_block(std::size_t chunk) const;

  // Runs the chunk up to the final norm, on the own rows. With `saved`, keeps what backward needs.
  Tensor run(std::size_t chunk, const StepContext& context, const ModelInput& input, Tensor x, Hooks& hooks, Saved* saved);
  // The stream before the first block, in `memory`.
  Tensor embed(const StepContext& context, Arena& memory, const ModelInput& input, Hooks& hooks);
  // Forward of a block of the chunk, keeping what its backward needs.
  Tensor run_block(std::size_t chunk, std::size_t i, const StepContext& context, const ModelInput& input, const Tensor& x,
                   Saved& saved);
  // The number of block i of a chunk among those of it that are offloaded; nothing if it is not.
  std::optional<std::size_t> offloaded(std::size_t chunk, std::size_t i, const ActivationOffload* offload) const;
  // Brings back what offloaded block number `i` keeps, and starts to bring what the next ones do.
  static void await_block(ActivationOffload& offload, const Saved& saved, std::size_t i);
  void backward_head(const StepContext& context, const Tensor& dx, Hooks& hooks, const Saved& saved);
  // Adds the loss over all rows, in chunks so that the logits of the whole batch never exist at once. With own_dnormed, also its
  // gradient and the head's.
  void head_loss(const StepContext& context, const Tensor& own_normed, std::span<const std::int32_t> targets,
                 float gradient_scale, const Tensor& own_dnormed);
  // What last_logits() gives: of samples of one token by one product, else by one each.
  void head_logits(const StepContext& context, const Tensor& own_normed, Count samples, const Tensor& logits);
  // The head's product, of each row by itself, for this part of the vocabulary: [rows, logit_columns()].
  Tensor head_product(const StepContext& context, const Tensor& normed);
  // Of each sample, the tokens that are here.
  Count tokens_of(const ModelInput& input) const;
  // Accumulates the gradients of the token embedding and the position table.
  void embedding_backward(const StepContext& context, const ModelInput& input, const Tensor& dx);

  // The head's weight, or its gradient, with the zero rows that follow it where the vocabulary is padded: [logit_columns(), C].
  Tensor head_rows(Tensor Parameter::*tensor) const;
  // Rows of one chunk of logits, and elements of one row: the vocabulary or the largest part of it, on a GPU padded.
  Count logit_rows(Count rows) const;
  Count logit_columns() const;

  DecoderSpec spec_;
  TensorParallel& parallel_;
  Vocabulary vocabulary_;
  std::vector<ChunkSpec> chunks_;
  Parameter* embedding_ = nullptr;  // [V, C]; null, as what follows, if no chunk holds it
  Parameter* positions_ = nullptr;  // [T, C]
  std::vector<Block> blocks_;       // of all chunks
  std::optional<Norm> norm_;
  Parameter* head_ = nullptr;                        // [V, C]; the embedding if tied and here
  std::vector<PartialGradients> partial_gradients_;  // of each unit
  Saved saved_;                                      // between Model's forward and backward
};

/// What all families take from the section alike: a family sets the rest.
DecoderSpec common_decoder(const ModelSection& model);

/// The decoder of a validated run file, or chunks of it, declared as by declare_model. Error (config) for a family that is none.
std::unique_ptr<Decoder> declare_decoder(const ModelSection& config, const ModelStorage& storage, TensorParallel& parallel,
                                         std::span<const ChunkSpec> chunks);

}  // namespace cohort
