// What a model is to the rest of Cohort. Models know nothing of ranks; strategies act through the hooks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "models/predictor.hpp"
#include "nn/tensor_parallel.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

class Model : public Predictor {
 public:
  Model(std::string kind, const ModelStorage& storage) : kind_(std::move(kind)), storage_(storage) {}
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
  void idle_loss(Hooks& hooks) const override;
  std::unique_ptr<KvCache> make_cache(Count, Count) const override { return nullptr; }

  /// Floating-point operations of forward and backward for one token (mlp: one sample), by the convention 6 N + 12 L C T of the
  /// PaLM paper (Chowdhery et al. 2022, appendix B), N without position embeddings; recomputation is not counted,
  /// and of frozen weights only 4 N.
  virtual double flops_per_token(Count tokens) const = 0;

  /// Whether forward computes gradients of the last unit, together with the loss (Hooks::pre_gradient).
  virtual bool loss_computes_head_gradient() const { return false; }

  const ModelStorage& storage() const override { return storage_; }

 protected:
  std::string kind_;
  ModelStorage storage_;
  ParameterRegistry registry_;
  std::vector<Unit> units_;
};

/// The model of a validated run file, or the part of it that `parallel` names, which must outlive the model; its parameters are
/// declared but without memory: for who allocates them otherwise than ParameterRegistry::allocate. Running a part is collective
/// over tp: all parts run the same inputs, and all get the same loss and logits.
std::unique_ptr<Model> declare_model(const ModelSection& config, const ModelStorage& storage = {},
                                     TensorParallel& parallel = TensorParallel::none());

/// The same with its initial values. `seed` keys the values.
std::unique_ptr<Model> make_model(const ModelSection& config, std::uint64_t seed, const ModelStorage& storage = {},
                                  TensorParallel& parallel = TensorParallel::none());

/// Number of parameters of the whole model, without allocating them.
Count count_parameters(const ModelSection& config);
}  // namespace cohort
