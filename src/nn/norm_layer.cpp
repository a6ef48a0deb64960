#include "nn/norm_layer.hpp"

#include "ops/norm.hpp"

namespace cohort {

Norm::Norm(ParameterRegistry& registry, const std::string& name, NormKind kind, Count width, double epsilon,
           const TensorParallel& parallel)
    : kind_(kind), epsilon_(static_cast<float>(epsilon)) {
  const auto declare = [&](const char* part, InitSpec::Kind init) {
    Parameter& parameter = registry.declare(name + part, {width}, {init}, 0, parallel.replicated());
    parameter.partial_gradient = parallel.sequence();
    return &parameter;
  };
  weight_ = declare(".weight", InitSpec::Kind::ones);
  if (kind == NormKind::layer) bias_ = declare(".bias", InitSpec::Kind::zeros);
}

Norm::Saved Norm::forward(const StepContext& context, const Tensor& y, const Tensor& x) const {
  Saved saved;
  saved.rstd = context.take_fp32({x.shape().rows()});
  if (kind_ == NormKind::layer) {
    saved.mean = context.take_fp32({x.shape().rows()});
    ops::layernorm_forward(context.exec, y, saved.mean, saved.rstd, x, weight_->compute, bias_->compute, epsilon_);
  } else {
    ops::rmsnorm_forward(context.exec, y, saved.rstd, x, weight_->compute, epsilon_);
  }
  return saved;
}

void Norm::backward(const StepContext& context, const Tensor& dx, const Tensor& dy, const Tensor& x, const Saved& saved) const {
  const Arena::Scope scratch(*context.activations);
  const auto gradient_of = [&](const Parameter& parameter) {
    return parameter.frozen ? context.take_zeros_fp32(parameter.shape) : parameter.gradient;
  };
  if (kind_ == NormKind::layer) {
    ops::layernorm_backward(context.exec, dx, gradient_of(*weight_), gradient_of(*bias_), dy, x, weight_->compute, saved.mean,
                            saved.rstd);
  } else {
    ops::rmsnorm_backward(context.exec, dx, gradient_of(*weight_), dy, x, weight_->compute, saved.rstd);
  }
}

std::vector<Parameter*> Norm::parameters() const {
  if (bias_ == nullptr) return {weight_};
  return {weight_, bias_};
}

}  // namespace cohort
