// A plain classifier: `layers` linear layers with ReLU between them and a head of `classes`. Small enough to watch every
// gradient; the course's first subject for data parallelism.
#pragma once

#include "models/model.hpp"
#include "nn/linear_layer.hpp"

namespace cohort {

class Mlp : public Model {
 public:
  Mlp(const ModelSection& config, const ModelStorage& storage);

  void forward(const StepContext& context, const ModelInput& input, float gradient_scale, Hooks& hooks) override;
  void backward(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void loss(const StepContext& context, const ModelInput& input, Hooks& hooks) override;
  void last_logits(const StepContext& context, const ModelInput& input, const Tensor& logits, Hooks& hooks) override;
  Count classes() const override { return classes_; }
  double flops_per_token(Count tokens) const override;

 private:
  // The input in the type of the activations.
  Tensor features(const StepContext& context, const ModelInput& input) const;
  // Logits, its bias added. With `saved`, keeps each layer's input and product.
  struct Saved {
    std::vector<Tensor> inputs;    // of each layer and the head
    std::vector<Tensor> products;  // of each layer, before bias and ReLU
    Tensor dlogits;
  };
  Tensor run(const StepContext& context, const ModelInput& input, Hooks& hooks, Saved* saved);

  Count inputs_;
  Count classes_;
  std::vector<Linear> layers_;  // the head is the last
  Saved saved_;
};

}  // namespace cohort
