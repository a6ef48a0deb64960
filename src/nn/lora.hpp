// Low-rank adapters of a linear layer (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"): beside a weight W
// that stays as it is, NAME.lora_a = A [r, inputs] and NAME.lora_b = B [outputs, r] are trained, and the layer computes
//   y = x W^T + s (x A^T) B^T,  s = alpha / r:
// the layer with the weight W + s B A. A starts as PyTorch's linear layers do, uniform in +-1/sqrt(inputs), and B with zeros: so
// a run starts from exactly the model whose weights it has.
//
// With tensor parallelism A or B is divided as W is. A layer that is split by outputs has all of A on each part, whose gradient
// is a sum over the parts; one that is split by inputs has all of B, and its terms join the sum of the layer's own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/tensor_parallel.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

struct LoraSpec {
  Count rank = 0;  // 0: no adapters, and all parameters are trained
  double alpha = 0.0;
  std::function<bool(const std::string& weight)> adapts = {};  // "blocks.3.attention.query.weight"
};

/// The adapters of a layer whose weights lie side by side: one for each that is adapted.
class LoraAdapters {
 public:
  /// Of rank 0: none. add() declares.
  explicit LoraAdapters(const LoraSpec& spec) : spec_(spec) {}

  /// Adapters for a weight of this name, which gives columns [first_column, first_column + weight.shape[0]) of the layer's
  /// outputs; nothing if it is not adapted.
  void add(ParameterRegistry& registry, const std::string& name, const Parameter& weight, Count first_column,
           TensorParallel& parallel);

  bool empty() const { return adapters_.empty(); }
  std::vector<Parameter*> parameters() const;

  // x [R, inputs], y and dy [R, outputs]: of this part, as the layer has them. Scratch memory is of context.activations.

  /// y += s (x A^T) B^T.
  void forward(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// dx += s (dy B) A.
  void backward_input(const StepContext& context, const Tensor& dx, const Tensor& dy) const;
  /// The gradients of A and B += s (dy B)^T x and s dy^T (x A^T).
  void backward_parameters(const StepContext& context, const Tensor& dy, const Tensor& x) const;

 private:
  struct Adapter {
    Parameter* a;
    Parameter* b;
    Count first_column;
    Count columns() const { return b->shape[0]; }
  };
  float scale() const { return static_cast<float>(spec_.alpha / static_cast<double>(spec_.rank)); }
  Tensor down(const StepContext& context, const Adapter& adapter, const Tensor& x) const;            // s x A^T
  Tensor down_gradient(const StepContext& context, const Adapter& adapter, const Tensor& dy) const;  // s dy B, of its columns
  static Tensor columns_of(const StepContext& context, const Adapter& adapter, const Tensor& y);

  LoraSpec spec_;
  std::vector<Adapter> adapters_;
};

}  // namespace cohort
