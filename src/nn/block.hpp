// A transformer block with normalisation before each branch (GPT-2, Llama):
//   x = x + attention(norm(x));  x = x + feed_forward(norm(x))
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/attention_layer.hpp"
#include "nn/feed_forward.hpp"
#include "nn/norm_layer.hpp"

namespace cohort {

/// What a block's backward computes again instead of reading what forward kept. What both compute has the same bits.
enum class Recompute : std::uint8_t {
  none,
  // All but attention: kept are the input and Attention::Result. Korthikanti et al. 2022, section 5, recompute what is cheap to
  // compute and large to keep. Their attention was that: it kept its scores. Flash attention keeps one number a row and head, and
  // is what grows with the square of the sample's length.
  selective,
  full  // forward keeps nothing but the input (Chen et al. 2016)
};

struct BlockSpec {
  AttentionSpec attention;
  FeedForwardSpec feed_forward;
  NormKind norm = NormKind::layer;
  double norm_epsilon = 1e-5;
  double dropout = 0.0;  // at the end of each branch
  Recompute recompute = Recompute::none;
};

class Block {
 public:
  /// `index` counts blocks from 0 and keys the dropout masks.
  Block(ParameterRegistry& registry, const std::string& name, const BlockSpec& spec, int index,
        TensorParallel& parallel = TensorParallel::none());

  struct Saved {
    Tensor input;  // [B*T, C]
    Count batch = 0;
    std::optional<Attention::Result> attended;  // if recomputation is selective
    struct Inside {
      Tensor normed1, middle, normed2;  // [B*T, C]
      Norm::Saved norm1, norm2;
      Attention::Saved attention;
      FeedForward::Saved feed_forward;
    };
    std::optional<Inside> inside;  // if nothing is recomputed
  };

  /// out [B*T, C] from x [B*T, C], which hold the own rows (nn/tensor_parallel.hpp), as all here does; x must stay as it is until
  /// backward. What is saved is of the arena `kept`, what is not of context.activations; they may be one.
  // Collective over: tp
  Saved forward(const StepContext& context, Arena& kept, const Tensor& out, const Tensor& x, Count batch) const;
  /// dx [B*T, C] holds the gradient of out and, at the end, that of x. The parameters' gradients are accumulated.
  // Collective over: tp
  void backward(const StepContext& context, const Tensor& dx, const Saved& saved) const;

  const Attention& attention() const { return attention_; }
  std::vector<Parameter*> parameters() const;

 private:
  // All of forward, with attention's result in memory of the caller.
  Saved::Inside run(const StepContext& context, const Tensor& out, const Tensor& x, Count batch,
                    const Attention::Result& attended) const;
  // What of it backward reads, once more: all but out, and the last product of which it is made.
  Saved::Inside run_again(const StepContext& context, const Saved& saved) const;
  // Up to where `out` would be computed. attention(y, x, residual) is the attention's forward pass.
  template <class Forward>
  Saved::Inside run_inside(const StepContext& context, const Tensor& x, const Forward& attention) const;
  // out = x + dropout(branch), where branch(y, residual) writes residual + its result, or only its result, to y.
  template <class Branch>
  void add_branch(const StepContext& context, const Tensor& out, const Tensor& x, std::uint32_t place,
                  const Branch& branch) const;
  // The mask of the own rows x.
  ops::DropoutKey dropout_key(const StepContext& context, const Tensor& x, std::uint32_t place) const {
    return parallel_->rows_of(context.dropout_key(spec_.dropout, place), x);
  }
  // The gradient of a branch's result, from that of the sum.
  Tensor branch_gradient(const StepContext& context, const Tensor& dout, std::uint32_t place) const;

  BlockSpec spec_;
  TensorParallel* parallel_;
  std::uint32_t first_place_;  // dropout masks: attention weights, end of attention, end of feed-forward
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  FeedForward feed_forward_;
};

}  // namespace cohort
