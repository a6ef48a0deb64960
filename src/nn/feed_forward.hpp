// The feed-forward part of a block: GELU (GPT-2) or SwiGLU (Llama) between two linear layers.
#pragma once

#include <string>
#include <vector>

#include "nn/linear.hpp"

namespace cohort {

enum class FeedForwardKind { gelu, swiglu };

struct FeedForwardSpec {
  FeedForwardKind kind = FeedForwardKind::gelu;
  Count width = 0;      // C
  Count ffn_width = 0;  // F
  double init_std = 0.02;
  double output_std = 0.02;  // of the down projection
};

class FeedForward {
 public:
  /// gelu: declares name.up and name.down, with biases. swiglu: name.gate, name.up and name.down, without.
  FeedForward(ParameterRegistry& registry, const std::string& name, const FeedForwardSpec& spec);

  /// What backward needs: the first layer's output (without its bias) and what the non-linearity made of it.
  struct Saved {
    Tensor before, after;
  };

  /// y [R, C] = down(activation(up(x [R, C]))); the down projection's bias is left to the caller.
  Saved forward(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// dx = gradient with respect to x (overwritten); the parameters' gradients are accumulated, but for the down projection's
  /// bias.
  void backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x, const Saved& saved) const;

  const Linear& down() const { return down_; }
  std::vector<Parameter*> parameters() const;

 private:
  FeedForwardSpec spec_;
  Linear up_;
  Linear down_;
};

}  // namespace cohort
