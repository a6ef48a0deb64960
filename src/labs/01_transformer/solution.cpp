// Lab 1: one way to write it.
#include <algorithm>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <functional>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

// 1.1
void rms_norm(std::span<float> out, std::span<float> rstd, std::span<const float> x, std::span<const float> weight,
              float epsilon) {
  const std::size_t n = weight.size();
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    const std::span<const float> values = x.subspan(row * n, n);
    double squares = 0.0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    rstd[row] = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon));
    for (std::size_t i = 0; i < n; ++i) out[row * n + i] = values[i] * rstd[row] * weight[i];
  }
}

// 1.2
void rotate_half(std::span<float> out, std::span<const float> x) {
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = -x[half + i];
    out[half + i] = x[i];
  }
}

// 1.3
void apply_rotary(std::span<float> out, std::span<const float> x, std::span<const float> cosines, std::span<const float> sines,
                  std::int64_t head_size) {
  const auto size = static_cast<std::size_t>(head_size), half = size / 2;
  std::vector<float> turned(size);
  for (std::size_t t = 0; t < x.size() / size; ++t) {
    rotate_half(turned, x.subspan(t * size, size));
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t pair = t * half + i % half;
      out[t * size + i] = x[t * size + i] * cosines[pair] + turned[i] * sines[pair];
    }
  }
}

// 1.4
void swiglu(std::span<float> out, std::span<const float> gate, std::span<const float> up) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

// 1.5
void causal_attention(std::span<float> out, std::span<const float> q, std::span<const float> k, std::span<const float> v,
                      std::int64_t head_size) {
  const auto size = static_cast<std::size_t>(head_size), tokens = q.size() / size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  std::vector<float> weights(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      weights[j] = 0.0f;
      for (std::size_t d = 0; d < size; ++d) weights[j] += q[i * size + d] * k[j * size + d] * scale;
    }
    const float largest = *std::max_element(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    float sum = 0.0f;
    for (std::size_t j = 0; j <= i; ++j) sum += weights[j] = std::exp(weights[j] - largest);
    for (std::size_t d = 0; d < size; ++d) {
      float mixed = 0.0f;
      for (std::size_t j = 0; j <= i; ++j) mixed += weights[j] * v[j * size + d];
      out[i * size + d] = mixed / sum;
    }
  }
}

// 1.6
void init_weights(std::span<InitialValues> initial, std::span<const ModelTensor> tensors, int layers) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    if (name.ends_with(".bias")) {
      initial[i] = {0.0, 0.0};
    } else if (tensors[i].shape.size() == 1) {
      initial[i] = {1.0, 0.0};
    } else {
      const bool residual = name.ends_with("attention.output.weight") || name.ends_with("feed_forward.down.weight");
      initial[i] = {0.0, residual ? 0.02 / std::sqrt(2.0 * layers) : 0.02};
    }
  }
}

// 1.7
double next_token_loss(std::span<const float> logits, std::span<const std::int32_t> tokens, std::span<float> dlogits) {
  const std::size_t classes = logits.size() / tokens.size();
  const auto targets = tokens.subspan(1);
  const auto counting = std::count_if(targets.begin(), targets.end(), [](std::int32_t token) { return token >= 0; });
  std::fill(dlogits.begin(), dlogits.end(), 0.0f);
  double sum = 0.0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] < 0) continue;
    const auto row = logits.subspan(t * classes, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double exponentials = 0.0;
    for (const float logit : row) exponentials += std::exp(logit - largest);
    const double log_sum = largest + std::log(exponentials);
    sum += log_sum - row[static_cast<std::size_t>(targets[t])];
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = c == static_cast<std::size_t>(targets[t]) ? 1.0 : 0.0;
      dlogits[t * classes + c] = static_cast<float>((std::exp(row[c] - log_sum) - target) / static_cast<double>(counting));
    }
  }
  return counting == 0 ? 0.0 : sum / static_cast<double>(counting);
}

// 1.8
void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  groups = {{weight_decay, {}}, {0.0, {}}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].trained) groups[tensors[i].shape.size() >= 2 ? 0 : 1].members.push_back(i);
  }
}

// 1.9
double cosine_schedule(const CosineSchedule& schedule, std::int64_t step) {
  const auto& [warmup, decay, peak, floor] = schedule;
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (step > decay) return floor;
  const double progress = static_cast<double>(step - 1 - warmup) / static_cast<double>(decay - warmup);
  return floor + (peak - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

// 1.10
StepOutcome train_step(Training& training, double learning_rate, double clip_norm) {
  std::int64_t tokens = 0;
  for (int m = 0; m < training.micro_batches(); ++m) tokens += training.tokens(m);
  training.zero_gradients();
  StepOutcome outcome{};
  for (int m = 0; m < training.micro_batches(); ++m) {
    if (training.tokens(m) == 0) continue;
    const double share = static_cast<double>(training.tokens(m)) / static_cast<double>(tokens);
    outcome.loss += share * training.forward_backward(m, share);
  }
  double squares = 0.0;
  for (const float gradient : training.gradients()) squares += static_cast<double>(gradient) * gradient;
  outcome.gradient_norm = std::sqrt(squares);
  if (clip_norm > 0.0 && outcome.gradient_norm > clip_norm) {
    const double factor = clip_norm / outcome.gradient_norm;
    for (float& gradient : training.gradients()) gradient = static_cast<float>(gradient * factor);
  }
  training.optimizer_step(learning_rate);
  return outcome;
}

// 1.11
void rms_norm_backward(std::span<float> dx, std::span<float> dweight, std::span<const float> dout, std::span<const float> x,
                       std::span<const float> weight, std::span<const float> rstd) {
  const std::size_t n = weight.size();
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    const std::size_t first = row * n;
    double along = 0.0;
    for (std::size_t i = 0; i < n; ++i) along += static_cast<double>(dout[first + i]) * weight[i] * x[first + i] * rstd[row];
    const auto mean = static_cast<float>(along / static_cast<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      const float y = x[first + i] * rstd[row];
      dx[first + i] += rstd[row] * (dout[first + i] * weight[i] - y * mean);
      dweight[i] += dout[first + i] * y;
    }
  }
}

// 1.12
double numeric_derivative(const std::function<double(std::span<const double>)>& loss, std::span<double> x, std::size_t i) {
  const double before = x[i];
  const double h = 1e-5 * std::fabs(before);  // near the cube root of double's precision
  x[i] = before + h;
  const double above = loss(x);
  x[i] = before - h;
  const double below = loss(x);
  x[i] = before;
  return (above - below) / (2.0 * h);
}
