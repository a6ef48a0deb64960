#include "optim/adamw.hpp"

#include "ops/adamw.hpp"

namespace cohort {

AdamW::AdamW(const ParameterRegistry& parameters, const OptimizerSection& config)
    : parameters_(parameters),
      config_(config),
      m_(Tensor::zeros("optimizer.m", {parameters.elements()})),
      v_(Tensor::zeros("optimizer.v", {parameters.elements()})) {
  for (const auto& parameter : parameters.all()) {
    const Count begin = parameters.offset(*parameter);
    const Count end = begin + parameter->elements();
    parameter->optimizer_state["m"] = m_.slice(begin, end).reshaped(parameter->value.shape());
    parameter->optimizer_state["v"] = v_.slice(begin, end).reshaped(parameter->value.shape());
    if (!groups_.empty() && groups_.back().decays == parameter->decays) {
      groups_.back().end = end;
    } else {
      groups_.push_back({begin, end, parameter->decays});
    }
  }
}

void AdamW::step(const ops::Exec& exec, double learning_rate, double gradient_scale, Count step) const {
  for (const Group& group : groups_) {
    const auto part = [&](const Tensor& tensor) { return tensor.slice(group.begin, group.end); };
    ops::adamw(exec, part(parameters_.flat_values()), part(m_), part(v_), part(parameters_.flat_gradients()),
               {.learning_rate = static_cast<float>(learning_rate),
                .beta1 = static_cast<float>(config_.beta1),
                .beta2 = static_cast<float>(config_.beta2),
                .epsilon = static_cast<float>(config_.epsilon),
                .weight_decay = group.decays ? static_cast<float>(config_.weight_decay) : 0.0f,
                .gradient_scale = static_cast<float>(gradient_scale),
                .step = step + 1});
  }
}

}  // namespace cohort
