// Lab 1: the transformer and its training loop. What each function has to do is in <cohort/lab01_transformer.hpp>.
//
//   cohort lab show 1        the handout        cohort lab check 1       are they right?
//   cohort lab hint 1.1      a hint             cohort lab run 1         train with them
#include <algorithm>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <functional>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

using cohort::lab::not_written;

// 1.1
void rms_norm(std::span<float> out, std::span<float> rstd, std::span<const float> x, std::span<const float> weight,
              float epsilon) {
  (void)out, (void)rstd, (void)x, (void)weight, (void)epsilon;
  not_written();
}

// 1.2
void rotate_half(std::span<float> out, std::span<const float> x) {
  (void)out, (void)x;
  not_written();
}

// 1.3
void apply_rotary(std::span<float> out, std::span<const float> x, std::span<const float> cosines, std::span<const float> sines,
                  std::int64_t head_size) {
  (void)out, (void)x, (void)cosines, (void)sines, (void)head_size;
  not_written();
}

// 1.4
void swiglu(std::span<float> out, std::span<const float> gate, std::span<const float> up) {
  (void)out, (void)gate, (void)up;
  not_written();
}

// 1.5
void causal_attention(std::span<float> out, std::span<const float> q, std::span<const float> k, std::span<const float> v,
                      std::int64_t head_size) {
  (void)out, (void)q, (void)k, (void)v, (void)head_size;
  not_written();
}

// 1.6
void init_weights(std::span<InitialValues> initial, std::span<const ModelTensor> tensors, int layers) {
  (void)initial, (void)tensors, (void)layers;
  not_written();
}

// 1.7
double next_token_loss(std::span<const float> logits, std::span<const std::int32_t> tokens, std::span<float> dlogits) {
  (void)logits, (void)tokens, (void)dlogits;
  not_written();
}

// 1.8
void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay) {
  (void)groups, (void)tensors, (void)weight_decay;
  not_written();
}

// 1.9
double cosine_schedule(const CosineSchedule& schedule, std::int64_t step) {
  (void)schedule, (void)step;
  not_written();
}

// 1.10
StepOutcome train_step(Training& training, double learning_rate, double clip_norm) {
  (void)training, (void)learning_rate, (void)clip_norm;
  not_written();
}

// 1.11
void rms_norm_backward(std::span<float> dx, std::span<float> dweight, std::span<const float> dout, std::span<const float> x,
                       std::span<const float> weight, std::span<const float> rstd) {
  (void)dx, (void)dweight, (void)dout, (void)x, (void)weight, (void)rstd;
  not_written();
}

// 1.12
double numeric_derivative(const std::function<double(std::span<const double>)>& loss, std::span<double> x, std::size_t i) {
  (void)loss, (void)x, (void)i;
  not_written();
}
