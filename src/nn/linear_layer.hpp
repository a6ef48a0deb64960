// A linear layer, or several that read the same input and whose weights lie side by side in memory, so that one matrix product
// serves them all: query, key and value; gate and up.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/lora.hpp"
#include "nn/tensor_parallel.hpp"
#include "ops/fp8_linear.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

struct LinearSpec {
  std::string name;      // parameters are name.weight and name.bias
  Count outputs;         // rows of the weight, of all parts together
  double init_std;       // of the normal initial weights; biases start at 0
  ShardSpec shard = {};  // this part of the weight: a range of dim 0, the outputs, or of dim 1, the inputs
  bool shared = false;   // other parts hold the same outputs, and use them otherwise
};

/// The gradient of a layer's output as its backward functions take it: the tensor, and where products are in 8 bits
/// (Exec::fp8) the copies that they read, which Linear::output_gradient() makes.
struct OutputGradient {
  OutputGradient(const Tensor& tensor, const ops::Fp8Matrix& copies = {}) : dy(tensor), fp8(copies) {}  // implicit

  Tensor dy;
  ops::Fp8Matrix fp8;
};

// With Exec::fp8 the products below are those of ops/fp8_linear.hpp: x, dy and the weight are rounded to 8 bits in memory of the
// arena, each with a scale of its own, that of this rank's tensor. x is rounded in forward and again in backward, and the weight
// in every pass: copies that live from forward to backward would cost a byte an element of what backward keeps, and copies of the
// weights two bytes a parameter, made anew wherever a strategy gathers them. R rows pay 10 N K bytes for the weight's part of
// 6 R N K operations.
class Linear {
 public:
  /// Declares name.weight [outputs, inputs] of each spec, then name.bias [outputs] of each if `with_bias`. `inputs` are those of
  /// all parts. All specs are split alike, by outputs or by inputs. `lora`: whose weights have adapters, which join every product
  /// below; their parameters come last.
  Linear(ParameterRegistry& registry, const std::vector<LinearSpec>& specs, Count inputs, bool with_bias,
         TensorParallel& parallel = TensorParallel::none(), const LoraSpec& lora = {});

  // Below, outputs and inputs are this part's. Where a layer is split by outputs, x is all rows and so is y. Where it is split by
  // inputs, x is all rows, y and residual are the own rows of what is then summed over the parts, and dy is all rows again.

  /// y [R, outputs] = x [R, inputs] weight^T + bias, plus `residual` [R, outputs] if defined. y may be residual. Split by inputs:
  /// the product is summed over the parts, then bias and residual are added, once and in the type of y: the residual stream is
  /// not rounded once more for each part. // Collective over: tp
  void forward(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& residual = {}) const;
  /// y = x weight^T, for callers that fuse the bias with what follows.
  void forward_without_bias(const StepContext& context, const Tensor& y, const Tensor& x) const;
  /// after [R, outputs] = gelu(x weight^T + bias), and `before` what gelu_backward() of the next layer needs. Not if adapted.
  void gelu_forward(const StepContext& context, const Tensor& after, const Tensor& before, const Tensor& x) const;

  /// What the products of backward read of dy [R, outputs]; in memory of the arena.
  OutputGradient output_gradient(const StepContext& context, const Tensor& dy) const;
  /// For a layer split by inputs: the same of all rows, gathered from the own ones in `dy`. Calls work(block, its gradient) for
  /// blocks of rows as they arrive (TensorParallel::gather_rows). // Collective over: tp
  using GradientWork = std::function<void(const RowBlock& block, const OutputGradient& dy)>;
  OutputGradient gather_output_gradient(const StepContext& context, const Tensor& dy, const GradientWork& work) const;
  /// dx [R, inputs] = dy weight, of this part.
  void backward_input(const StepContext& context, const Tensor& dx, const OutputGradient& dy) const;
  /// Down to what went into the GELU before this layer: dbefore [R, inputs] = gelu'(before + bias) * (dy weight), and dbias +=
  /// its column sums. `before` and `bias` are those of that layer's gelu_forward(). Not if adapted.
  void gelu_backward(const StepContext& context, const Tensor& dbefore, const Tensor& dbias, const OutputGradient& dy,
                     const Tensor& before, const Tensor& bias) const;
  /// For a layer split by outputs: dx [own rows, inputs] = dy weight, summed over the parts. The sum is under way until
  /// TensorParallel::finish(): time to compute the weight's gradient in. With overlap it hides beside its own terms and is done.
  // Collective over: tp
  void start_backward_input(const StepContext& context, const Tensor& dx, const OutputGradient& dy) const;
  // The gradients of what is frozen are left out.

  /// The gradients of weight and bias += dy^T x and the column sums of dy.
  void backward_parameters(const StepContext& context, const OutputGradient& dy, const Tensor& x) const;
  /// Only the bias's gradient, if there is a bias: += column sums of dy.
  void backward_bias(const StepContext& context, const Tensor& dy) const;
  /// Only the weight's gradient, where the bias's is computed from other rows, or with what precedes.
  void backward_weight(const StepContext& context, const OutputGradient& dy, const Tensor& x) const;

  /// All weights [outputs, inputs] and biases [outputs] as one tensor, as layers read them; valid after
  /// ParameterRegistry::allocate. Undefined without biases.
  Tensor weight() const { return joined(weights_, &Parameter::compute); }
  Tensor weight_gradient() const { return joined(weights_, &Parameter::gradient); }
  Tensor bias() const { return joined(biases_, &Parameter::compute); }
  Tensor bias_gradient() const { return joined(biases_, &Parameter::gradient); }
  bool has_bias() const { return !biases_.empty(); }
  /// Whether the product is more than that of the weight: what fuses it with something else cannot be used.
  bool adapted() const { return !adapters_.empty(); }
  bool frozen() const { return weights_.front()->frozen; }

  Count inputs() const { return inputs_; }
  Count outputs() const { return outputs_; }
  /// Weights, biases, adapters.
  std::vector<Parameter*> parameters() const;

 private:
  void declare_biases(ParameterRegistry& registry, const std::vector<LinearSpec>& specs);
  // dbias: undefined where it is not wanted.
  void backward_weight(const StepContext& context, const OutputGradient& dy, const Tensor& x, const Tensor& dbias) const;
  Tensor joined(const std::vector<Parameter*>& parameters, Tensor Parameter::*tensor) const;

  // Split by inputs over several parts: the products are terms of sums.
  bool sums_outputs() const { return inputs_ < weights_.front()->global_shape[1]; }
  // y = x weight^T summed over the parts, without bias.
  void sum_forward(const StepContext& context, const Tensor& y, const Tensor& x) const;
  // y = x weight^T + bias, plus `residual` if defined; without adapters.
  void product(const StepContext& context, const Tensor& y, const Tensor& x, const Tensor& with_bias,
               const Tensor& residual) const;

  TensorParallel* parallel_;
  std::vector<Parameter*> weights_;
  std::vector<Parameter*> biases_;
  LoraAdapters adapters_;
  Count inputs_;
  Count outputs_ = 0;
};

}  // namespace cohort
