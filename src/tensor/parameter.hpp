// Parameters: named weights with their gradients and optimizer state, in the order in which the forward pass uses them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/axis.hpp"
#include "base/box.hpp"
#include "tensor/tensor.hpp"

namespace cohort {

/// This rank's part of a logical tensor: a box of it, cut by any number of splits. Experts with tensor parallelism inside are
/// two: of the dim of the experts over one axis, of a dim of their matrices over another.
struct ShardSpec {
  /// Indices [begin, end) of `dim`; the ranks along `axis` hold the others. Parts may differ in size, and be empty.
  struct Split {
    int dim;
    Axis axis;
    Count begin, end;
    bool operator==(const Split&) const = default;
  };
  std::vector<Split> splits;  // none: this rank holds all of it. Of two of one dim it holds what lies in both
  /// Ranks of the same stage may hold the same part: norms under tensor parallelism, key/value heads that are fewer than ranks.
  /// One of them counts, in the norm of the gradient and in checkpoints.
  bool counts = true;

  bool whole() const { return splits.empty(); }
  /// The part of a tensor of shape `global`. Throws Error(internal) if a split lies outside of it.
  Box box(const Shape& global) const;
  bool operator==(const ShardSpec&) const = default;
};

/// How a parameter starts. `normal` draws from (seed, init, parameter id, global element index): the same in every layout.
struct InitSpec {
  enum class Kind { zeros, ones, normal, uniform } kind = Kind::zeros;
  double scale = 0.0;  // standard deviation (normal) or half-width (uniform)
};

/// What a parameter is to its model, for optimizers that treat some otherwise.
enum class ParameterRole {
  matrix,  // of a block: multiplies activations by a learned matrix
  table,   // embeddings and positions, of which a token reads a row
  head,    // gives the logits
  vector   // norms, biases
};

/// One logical weight. `global_shape` is what a checkpoint stores; value, gradient and state hold this rank's part of it, of
/// shape `shape`. Who shards further (ZeRO) leaves those undefined that a rank does not hold whole.
struct Parameter {
  std::string name;       // "blocks.3.attention.qkv.weight"
  int id = 0;             // position in the whole model; keys the random stream of the initial values
  std::size_t index = 0;  // position in the registry
  int layer = 0;          // parameters of one layer have the same number
  Shape global_shape;
  ShardSpec shard;
  Shape shape;          // of this rank's part
  bool frozen = false;  // stays as it is: no gradient and no optimizer state; in flat tensors of its own kind
  Count offset = 0;     // where it begins in the flat tensors of the registry, in elements
  Count padding = 0;    // elements that follow it there, always zero
  InitSpec init;
  ParameterRole role = ParameterRole::vector;     // declared with two dims: matrix, unless its layer says otherwise
  bool decays = false;                            // weight decay applies: matrices yes, norms and biases no
  bool copied = false;                            // another pipeline stage holds a copy of it: a head tied to the embedding
  bool partial_gradient = false;                  // backward computes a term of it on each rank that holds this parameter
  Tensor value;                                   // fp32: what the optimizer updates and checkpoints hold
  Tensor compute;                                 // what forward and backward read: `value` itself, or a 16-bit copy of it
  Tensor gradient;                                // fp32; accumulated into by backward, zeroed by zero_gradients
  std::map<std::string, Tensor> optimizer_state;  // by slot

  /// Of this rank's part.
  Count elements() const { return shape.elements(); }
  Box box() const { return shard.box(global_shape); }
};

/// Where a model lives and in which type it computes.
struct ModelStorage {
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
  Parameter& declare(std::string name, const Shape& global_shape, InitSpec init, Count padding = 0, const ShardSpec& shard = {});
  /// From now on declare() declares frozen parameters.
  void freeze() { freezes_ = true; }
  /// One that is trained beside frozen ones.
  Parameter& declare_adapter(std::string name, const Shape& global_shape, InitSpec init, const ShardSpec& shard);
  /// Parameters declared from now on belong to the next layer.
  void begin_layer() { ++layer_; }
  /// Counts `parameters` of the whole model that other ranks hold: those declared next get ids beyond them.
  void skip(std::size_t parameters) { next_id_ += static_cast<int>(parameters); }

  /// Allocates all values and the gradients of what is trained, and sets the initial values by (seed, id, global element index).
  void allocate(std::uint64_t seed, const ModelStorage& storage = {});
  /// The values alone, of a model that is not trained.
  void allocate_values(std::uint64_t seed, const ModelStorage& storage);
  /// The same of the frozen parameters alone, for who allocates the others otherwise.
  void allocate_frozen(std::uint64_t seed, const ModelStorage& storage);
  /// To be called after values were changed by anything but the optimizer: brings the 16-bit copies up to date.
  void values_changed() const;

  /// In order of declaration.
  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  /// Those that are not frozen, in order of declaration.
  const std::vector<Parameter*>& trained() const { return trained_; }
  /// Null if there is none of that name.
  Parameter* find(const std::string& name) const;

  /// All values (gradients) of what is trained as one tensor, paddings included.
  const Tensor& flat_values() const { return values_; }
  const Tensor& flat_gradients() const { return gradients_; }
  /// The values again, or their 16-bit copies.
  const Tensor& flat_compute() const { return compute_; }
  /// Elements of these tensors.
  Count flat_elements() const { return flat_elements_; }
  /// The same of the frozen parameters; undefined if there are none.
  const Tensor& flat_frozen_values() const { return frozen_values_; }
  const Tensor& flat_frozen_compute() const { return frozen_compute_; }
  /// Of this rank's parts, without paddings.
  Count elements() const { return elements_; }
  Count trained_elements() const { return trained_elements_; }

  void zero_gradients() const { gradients_.zero(); }

 private:
  Parameter& add(std::string name, const Shape& global_shape, InitSpec init, Count padding, const ShardSpec& shard, bool frozen);
  void set_tensors(Parameter& parameter, const Tensor& values, const Tensor& compute, std::uint64_t seed) const;

  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<Parameter*> trained_;
  bool freezes_ = false;
  std::map<std::string, Parameter*> by_name_;
  int next_id_ = 0;
  int layer_ = 0;
  Tensor values_;
  Tensor gradients_;
  Tensor compute_;
  Tensor frozen_values_;
  Tensor frozen_compute_;
  Count elements_ = 0;
  Count trained_elements_ = 0;
  Count flat_elements_ = 0;         // with paddings, of what is trained
  Count flat_frozen_elements_ = 0;  // likewise
};

}  // namespace cohort
