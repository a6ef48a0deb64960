// The feed-forward part of a block: GELU (GPT-2) or SwiGLU (Llama) between two linear layers.
#pragma once

#include <string>
#include <vector>

#include "nn/linear_layer.hpp"

namespace cohort {

enum class FeedForwardKind { gelu, swiglu };

struct FeedForwardSpec {
  FeedForwardKind kind = FeedForwardKind::gelu;
  Count width = 0;      // C
  Count ffn_width = 0;  // F
  double init_std = 0.02;
  double output_std = 0.02;  // of the down projection
  LoraSpec lora = {};
};

class FeedForward {
 public:
  /// gelu: declares name.up and name.down, with biases. swiglu: name.gate, name.up and name.down, without. Each part has as many
  /// of the ffn_width features.
  FeedForward(ParameterRegistry& registry, const std::string& name, const FeedForwardSpec& spec,
              TensorParallel& parallel = TensorParallel::none());

  /// What backward needs: what went into the non-linearity, as its op keeps it, and what came out.
  struct Saved {
    Tensor before, after;
  };

  /// y [R, C] = down(activation(up(x [R, C]))), plus `residual` [R, C] if defined. y may be residual. x, y, dx and dy hold the
  /// own rows, what is saved all rows of this part's features. // Collective over: tp
  Saved forward(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& residual = {}) const {
    const Saved saved = up(context, x);
    down(context, y, saved, residual);
    return saved;
  }
  /// Its two halves: what backward needs, and y of that. // Collective over: tp
  Saved up(const StepContext& context, const Tensor& x) const;
  void down(const StepContext& context, const Tensor& y, const Saved& saved, const Tensor& residual = {}) const {
    down_.forward(context, y, saved.after, residual);
  }
  /// dx = gradient with respect to x (overwritten); the parameters' gradients are accumulated.
  // Collective over: tp
  void backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x, const Saved& saved) const;

  std::vector<Parameter*> parameters() const;

 private:
  // Of some rows of dy through the down projection and the non-linearity: dbefore, and the gradient of the bias between them.
  void backward_to_input(const StepContext& context, const Tensor& dbefore, const OutputGradient& dy, const Tensor& before) const;

  // Adapters join the products between which the GELU stands: then it is computed on its own.
  bool fuses_gelu() const { return !up_.adapted() && !down_.adapted(); }

  FeedForwardSpec spec_;
  TensorParallel* parallel_;
  Linear up_;
  Linear down_;
};

}  // namespace cohort
