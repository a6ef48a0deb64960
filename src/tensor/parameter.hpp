// Parameters: named weights with their gradients and optimizer state, in the order in which the forward pass uses them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/axis.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// Which dims of a logical tensor are split over which axes of the mesh. An empty spec: every rank holds all of it.
struct ShardSpec {
  struct Split {
    int dim;
    Axis axis;
    bool operator==(const Split&) const = default;
  };
  std::vector<Split> splits;

  bool replicated() const { return splits.empty(); }
  bool operator==(const ShardSpec&) const = default;
};

/// How a parameter starts. `normal` draws from (seed, init, parameter id, global element index): the same in every layout.
struct InitSpec {
  enum class Kind { zeros, ones, normal, uniform } kind = Kind::zeros;
  double scale = 0.0;  // standard deviation (normal) or half-width (uniform)
};

/// One logical weight. `global_shape` is what a checkpoint stores; value, gradient and state hold this rank's part of it.
struct Parameter {
  std::string name;  // "blocks.3.attention.qkv.weight"
  int id = 0;        // position in the registry; keys the random stream of the initial values
  Shape global_shape;
  ShardSpec shards;
  InitSpec init;
  bool decays = false;                            // weight decay applies: matrices yes, norms and biases no
  Tensor value;                                   // fp32: what the optimizer updates and checkpoints hold
  Tensor compute;                                 // what forward and backward read: `value` itself, or a 16-bit copy of it
  Tensor gradient;                                // fp32; accumulated into by backward, zeroed by zero_gradients
  std::map<std::string, Tensor> optimizer_state;  // "m", "v"

  Count elements() const { return value.elements(); }
};

/// Where a model lives and in which type it computes.
struct Placement {
  DeviceKind device = DeviceKind::cpu;
  DType compute = DType::f32;  // of activations and of the parameters that layers read; values and gradients are always fp32
};

/// Owns the parameters of a model. All values lie in one block of memory and all gradients in another, in the order of
/// registration (the order of use in forward), so that a run of neighbouring parameters is one contiguous range: buckets and
/// optimizers use that.
class ParameterRegistry {
 public:
  /// Declares a parameter; its tensors exist after allocate(). The reference stays valid. `padding` elements that are always zero
  /// follow it in memory, so that a product may read and write whole tiles there; they belong to no parameter.
  Parameter& declare(std::string name, const Shape& shape, InitSpec init, Count padding = 0);

  /// Allocates all values and gradients, and sets the initial values by (seed, id, global element index).
  void allocate(std::uint64_t seed, const Placement& placement = {});
  /// To be called after values were changed by anything but the optimizer: brings the 16-bit copies up to date.
  void values_changed() const;

  /// In order of declaration.
  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  /// Null if there is none of that name.
  Parameter* find(const std::string& name) const;

  /// All values (gradients) as one tensor, paddings included.
  const Tensor& flat_values() const { return values_; }
  const Tensor& flat_gradients() const { return gradients_; }
  /// The values again, or their 16-bit copies.
  const Tensor& flat_compute() const { return compute_; }
  /// Where this parameter begins in the flat tensors, in elements.
  Count offset(const Parameter& parameter) const;
  /// Without paddings.
  Count elements() const { return elements_; }

  void zero_gradients() const { gradients_.zero(); }

 private:
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<Count> offsets_;
  Tensor values_;
  Tensor gradients_;
  Tensor compute_;
  Count elements_ = 0;
  Count flat_elements_ = 0;  // with paddings
};

}  // namespace cohort
