#include "optim/adamw.hpp"

#include <cstring>

namespace cohort {

AdamW::AdamW(const ParameterRegistry& parameters, const OptimizerSection& config)
    : parameters_(parameters),
      config_(config),
      m_(Tensor::zeros("optimizer.m", parameters.flat_values().shape(), DType::f32, parameters.flat_values().device())),
      v_(Tensor::zeros("optimizer.v", parameters.flat_values().shape(), DType::f32, parameters.flat_values().device())) {
  std::vector<ops::AdamWRange> ranges;
  for (const auto& parameter : parameters.all()) {
    const Count begin = parameter->offset;
    const Count end = begin + parameter->elements();
    parameter->optimizer_state["m"] = m_.slice(begin, end).reshaped(parameter->value.shape());
    parameter->optimizer_state["v"] = v_.slice(begin, end).reshaped(parameter->value.shape());
    const float decay = parameter->decays ? static_cast<float>(config.weight_decay) : 0.0f;
    if (!ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end, decay});
    }
  }
  const Tensor host = Tensor::zeros("optimizer.ranges", {static_cast<Count>(ranges.size() * sizeof(ops::AdamWRange))}, DType::u8);
  std::memcpy(host.raw(), ranges.data(), static_cast<std::size_t>(host.bytes()));
  ranges_ = host.to(m_.device(), "optimizer.ranges");
}

void AdamW::step(const ops::Exec& exec, double learning_rate, const Tensor& decisions, Count step) const {
  ops::adamw(exec, {parameters_.flat_values(), parameters_.flat_compute(), m_, v_, parameters_.flat_gradients()}, ranges_,
             {.learning_rate = static_cast<float>(learning_rate),
              .beta1 = static_cast<float>(config_.beta1),
              .beta2 = static_cast<float>(config_.beta2),
              .epsilon = static_cast<float>(config_.epsilon),
              .step = step + 1},
             decisions);
}

}  // namespace cohort
