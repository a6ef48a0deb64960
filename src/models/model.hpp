// What a model is to the rest of Cohort. Models know nothing of ranks; strategies act through the hooks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "nn/context.hpp"
#include "nn/hooks.hpp"
#include "nn/tensor_parallel.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// One micro-batch as a model sees it. Token models read inputs and targets [samples * tokens]; the mlp reads features
/// [samples * inputs] and one target a sample. A target of ops::kIgnoredTarget counts nothing.
struct ModelInput {
  Count samples = 0;
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
  std::span<const float> features;
  std::span<const Count> slots;  // [samples] positions in the global batch; key the dropout masks

  /// Samples [begin, end) of this batch.
  ModelInput slice(Count begin, Count end) const;
};

class Model {
 public:
  Model(std::string kind, const Placement& placement) : kind_(std::move(kind)), placement_(placement) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::string& kind() const { return kind_; }
  ParameterRegistry& parameters() { return registry_; }
  const ParameterRegistry& parameters() const { return registry_; }
  /// In the order of the forward pass.
  const std::vector<Unit>& units() const { return units_; }

  /// Training pass. Adds the sum of the loss (nats) over the counted targets to context.loss_sum, and prepares the gradient of
  /// `gradient_scale` times that sum. backward() must follow before the activations are rewound.
  virtual void forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) = 0;
  /// Accumulates the gradients of all parameters; calls grad_ready once for each.
  virtual void backward(const StepContext& context, const ModelInput& input, Hooks& hooks) = 0;
  /// Adds the sum of the loss to context.loss_sum; no gradients, no dropout, few activations. Calls the hooks of forward.
  virtual void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) = 0;
  /// The hooks of loss, for a rank that has no samples while others have.
  void idle_loss(Hooks& hooks) const;
  /// Logits [samples, V] (fp32, on the host) of what follows each sample's last token (mlp: of its class), without dropout.
  /// Calls the hooks of forward.
  virtual void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) = 0;
  /// Width of the logits.
  virtual Count classes() const = 0;

  /// Floating-point operations of forward and backward for one token (mlp: one sample), by the convention 6 N + 12 L C T of the
  /// PaLM paper (Chowdhery et al. 2022, appendix B), N without position embeddings; recomputation is not counted.
  virtual double flops_per_token(Count tokens) const = 0;

  /// Bytes of activations that forward and backward of a micro-batch of `samples` full samples hold at once.
  virtual Bytes activation_bytes(Count samples) const = 0;

  /// Where the parameters are and what type the activations have.
  const Placement& placement() const { return placement_; }

 protected:
  std::string kind_;
  Placement placement_;
  ParameterRegistry registry_;
  std::vector<Unit> units_;
};

/// The model of a validated run file, or the part of it that `parallel` names, which must outlive the model; its parameters are
/// declared but without memory: for who allocates them otherwise than ParameterRegistry::allocate. Running a part is collective
/// over tp: all parts run the same inputs, and all get the same loss and logits.
std::unique_ptr<Model> declare_model(const ModelSection& config, const Placement& placement = {},
                                     TensorParallel& parallel = TensorParallel::none());

/// The same with its initial values. `seed` keys the values.
std::unique_ptr<Model> make_model(const ModelSection& config, std::uint64_t seed, const Placement& placement = {},
                                  TensorParallel& parallel = TensorParallel::none());

/// Number of parameters of the whole model, without allocating them.
Count count_parameters(const ModelSection& config);
/// Model::activation_bytes, without building the model.
Bytes count_activation_bytes(const ModelSection& config, Count samples, const Placement& placement = {},
                             TensorParallel& parallel = TensorParallel::none());

}  // namespace cohort
