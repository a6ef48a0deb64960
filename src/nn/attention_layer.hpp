// Causal self-attention as a layer: query, key and value projections, optional normalisation of queries and keys, optional rotary
// positions, attention, output projection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/linear_layer.hpp"
#include "nn/qk_norm.hpp"
#include "ops/attention.hpp"

namespace cohort {

struct AttentionSpec {
  Count width = 0;      // C
  Count heads = 0;      // NH
  Count kv_heads = 0;   // NKV
  Count head_size = 0;  // HS; NH HS need not be C
  Count tokens = 0;     // T, the longest sample
  bool bias = false;
  bool rotary = false;
  ops::RopeSpec rope{};  // of rotary positions
  bool qk_norm = false;
  double norm_epsilon = 1e-5;  // of the normalisation of queries and keys
  double dropout = 0.0;        // of the softmax weights
  double init_std = 0.02;
  double output_std = 0.02;  // of the output projection
  LoraSpec lora = {};
};

class Attention {
 public:
  /// Declares name.query, name.key, name.value, name.output and what QkNorm declares. `layer` keys the dropout masks. Each part
  /// has as many query heads and the key/value heads that they read: if there are fewer of these than parts, several parts hold
  /// the same one.
  Attention(ParameterRegistry& registry, const std::string& name, const AttentionSpec& spec, std::uint32_t layer,
            TensorParallel& parallel = TensorParallel::none());

  /// What attention itself gives: the heads' outputs [B*T, NH HS] and the logarithms of the softmax denominators [B, NH, T],
  /// fp32. Of long samples it is most of a layer's work, and never much of its memory.
  struct Result {
    Tensor heads, lse;
  };
  /// What backward needs: the packed projections (biased, normalised and rotated) and the result.
  struct Saved {
    Tensor qkv;
    Result result;
    QkNorm::Saved qk_norm;
    ops::AttentionShape shape;
  };

  /// y [B*T, C] = output projection of the attention over x [B*T, C], plus `residual` [B*T, C] if defined. B samples of equal
  /// length; where context.sequence divides them, T counts the tokens that are here, and attention sees the others through it.
  /// With context.cache the rows are what it says, B is no matter, and attention sees what the cache holds; no backward follows.
  /// x, y, dx and dy hold the own rows, what is saved all rows of this part's heads. // Collective over: tp
  Saved forward(const StepContext& context, const Tensor& y, const Tensor& x, Count batch, const Tensor& residual = {}) const {
    return forward(context, y, x, batch, residual, take_result(context, x, batch));
  }
  /// The same with the result in memory of the caller, who may keep it longer than what else is saved.
  Saved forward(const StepContext& context, const Tensor& y, const Tensor& x, Count batch, const Tensor& residual,
                const Result& result) const;
  Result take_result(const StepContext& context, const Tensor& x, Count batch) const;
  /// The same y and Saved from the same x and the result that forward left, without attention. // Collective over: tp
  Saved forward_again(const StepContext& context, const Tensor& y, const Tensor& x, Count batch, const Tensor& residual,
                      const Result& result) const;
  /// dx = gradient with respect to x (overwritten); the parameters' gradients are accumulated.
  // Collective over: tp
  void backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x, const Saved& saved) const;

  /// Sizes of this part.
  ops::AttentionShape shape(Count batch, Count tokens) const { return {batch, tokens, heads_, kv_heads_, spec_.head_size}; }

  std::vector<Parameter*> parameters() const;

 private:
  ops::DropoutKey dropout_key(const StepContext& context) const;
  // Of `rows` rows of B samples, or of new tokens of a cache.
  ops::AttentionShape shape_of(const StepContext& context, Count batch, Count rows) const;
  // Saved without the result. `scratch` [B*T, NH HS] is overwritten if queries and keys are normalised.
  Saved project(const StepContext& context, const Tensor& x, Count batch, const Tensor& scratch) const;
  // saved.result (lse only if the rows are whole samples) of saved.qkv.
  void attend(const StepContext& context, const Saved& saved) const;

  AttentionSpec spec_;
  TensorParallel* parallel_;
  Count heads_, kv_heads_;  // of this part
  std::uint32_t layer_;
  Linear qkv_;
  Linear output_;
  std::optional<QkNorm> qk_norm_;
  // The tables of rope for position_rows() of `tokens` tokens, [tokens, HS/2] each.
  struct RopeTables {
    Tensor cosines, sines;
  };
  RopeTables rope_tables(const StepContext& context, Count tokens) const;
  mutable RopeTables tables_;  // for the longest sample; made at the first use, where the layer runs
};

}  // namespace cohort
