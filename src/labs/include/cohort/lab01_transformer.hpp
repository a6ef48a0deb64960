// Lab 1: the transformer and its training loop. Arrays are row-major; a row is one token. Of the spans of one call none overlap,
// and each has as many elements as its comment says: zero rows are possible wherever rows are.
//
//   T tokens of a sample     n width of a row     D size of a head (even where it is rotated)     V vocabulary
//
// What a comment calls "written" is overwritten, whatever was in it; what it calls "added to" keeps what was in it.
#pragma once

#include <cohort/lab.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

extern "C" {

/// 1.1: RMSNorm (Zhang, Sennrich 2019), for each row of x [rows, n] by itself:
///   rstd = 1 / sqrt(mean(x^2) + epsilon)        out = x * rstd * weight
/// out [rows, n] and rstd [rows] are written; rstd is what backward needs again. weight [n].
void rms_norm(std::span<float> out, std::span<float> rstd, std::span<const float> x, std::span<const float> weight,
              float epsilon);

/// 1.2: out = (-second half of x, first half of x): 1 2 3 4 becomes -3 -4 1 2. One row of even size; out is written.
void rotate_half(std::span<float> out, std::span<const float> x);

/// 1.3: rotary positions (Su et al. 2021) in the form of Llama, for one head x [T, D] and the cosines and sines [T, D/2] of its
/// angles: in the row of token t, elements i and i + D/2 are a pair, and turn by the angle of (t, i):
///   out = x * cos + rotate_half(x) * sin        (cosines and sines serve both halves of the row)
/// out [T, D] is written; `cosines` has D/2 elements for each row of x.
void apply_rotary(std::span<float> out, std::span<const float> x, std::span<const float> cosines, std::span<const float> sines,
                  std::int64_t head_size);

/// 1.4: SwiGLU (Shazeer 2020), elementwise: out = silu(gate) * up with silu(z) = z / (1 + exp(-z)). All of one size; out is
/// written. Finite for any finite gate.
void swiglu(std::span<float> out, std::span<const float> gate, std::span<const float> up);

/// 1.5: causal attention of one head (Vaswani et al. 2017, section 3.2.1). q, k, v, out [T, head_size]; out is written.
///   out_i = sum over j <= i of w_ij v_j        w_i = softmax over j <= i of q_i . k_j / sqrt(head_size)
/// Scores may be as large as 1e4: the softmax must not overflow.
void causal_attention(std::span<float> out, std::span<const float> q, std::span<const float> k, std::span<const float> v,
                      std::int64_t head_size);

/// A tensor of a model, named as Cohort names them: "embedding.weight", "positions.weight"; in layer L "blocks.L.norm1.weight",
/// "blocks.L.attention.query.weight" (key, value, output), "blocks.L.norm2.weight", "blocks.L.feed_forward.gate.weight" (up,
/// down); "norm.weight", "head.weight". Families with biases have ".bias" beside ".weight".
struct ModelTensor {
  std::string_view name;
  std::vector<std::int64_t> shape;
  bool trained = true;  // a frozen tensor has no gradient
};

/// Normally distributed; with deviation 0 all values are the mean.
struct InitialValues {
  double mean;
  double deviation;
};

/// 1.6: how each tensor starts (Radford et al. 2019, section 2.3): biases (names in ".bias") at zero; norms (other tensors of one
/// dim) at one; matrices with deviation 0.02, but the two of each block that write to the residual stream, attention.output and
/// feed_forward.down, with 0.02 / sqrt(2 layers). `initial` has an element for each tensor and is written.
void init_weights(std::span<InitialValues> initial, std::span<const ModelTensor> tensors, int layers);

/// 1.7: the end of a model's forward. Row t of logits [T, V] predicts token t + 1; the last row predicts nothing. A negative
/// token is padding: predicting it does not count. Returns the mean over what counts of -log softmax(row)[token], in nats, by
/// log-sum-exp: logits may be as large as 1e4. dlogits [T, V], the gradient of what is returned, is written. If nothing counts,
/// both are 0. T >= 1 and tokens are less than V.
double next_token_loss(std::span<const float> logits, std::span<const std::int32_t> tokens, std::span<float> dlogits);

/// Tensors that the optimizer treats alike, as positions in the list of tensors.
struct DecayGroup {
  double weight_decay;
  std::vector<std::size_t> members;
};

/// 1.8: what AdamW gets. Fills `groups`, which is empty, with two groups in this order: the tensors that decay, by
/// `weight_decay`, and those that do not, by 0. Tensors of two or more dims decay, those of fewer (norms, biases, scalars) do
/// not, whatever their names. Members are in the order of `tensors`; a tensor that is not trained is in no group.
void parameter_groups(std::vector<DecayGroup>& groups, std::span<const ModelTensor> tensors, double weight_decay);

struct CosineSchedule {
  std::int64_t warmup_steps;  // W: may be 0
  std::int64_t decay_steps;   // D: not less than W
  double peak;
  double floor;  // the rate after step D
};

/// 1.9: the learning rate of optimizer step `step`, which counts from 1 (Loshchilov, Hutter 2017, without restarts):
///   step <= W:       peak * step / W              the first step's rate is not 0, and step W has the peak
///   W < step <= D:   floor + (peak - floor) * (1 + cos(pi p)) / 2  with p = (step - 1 - W) / (D - W)
///   step > D:        floor
double cosine_schedule(const CosineSchedule& schedule, std::int64_t step);
}

/// A model and its optimizer as train_step() sees them. A step's samples come in micro-batches.
class Training {
 public:
  virtual ~Training() = default;
  virtual int micro_batches() const = 0;
  /// Targets of the micro-batch that count: some have padding. 0 is possible, but not for all of a step.
  virtual std::int64_t tokens(int micro_batch) const = 0;
  virtual void zero_gradients() = 0;
  /// Forward: returns the mean loss of the micro-batch's tokens. Backward: adds `scale` times the gradient of that mean to
  /// gradients(). Of no tokens the mean is NaN, as PyTorch's cross_entropy has it: such a micro-batch must not be run.
  virtual double forward_backward(int micro_batch, double scale) = 0;
  /// All gradients of the model, one after the other.
  virtual std::span<float> gradients() = 0;
  /// Changes the weights by gradients() as they are now.
  virtual void optimizer_step(double learning_rate) = 0;
};

struct StepOutcome {
  double loss;           // mean over all tokens of the step
  double gradient_norm;  // before clipping
};

extern "C" {

/// 1.10: one optimizer step over all micro-batches, as if they were one batch:
///   - loss and gradient are those of the mean over all tokens of the step: not the mean of the micro-batches' means;
///   - gradient_norm is the square root of the sum of the squares of all gradients, summed in double;
///   - if clip_norm > 0 and gradient_norm > clip_norm, all gradients are scaled by clip_norm / gradient_norm (Pascanu et al.
///   2013);
///   - zero_gradients() is called before anything is added, and optimizer_step(learning_rate) once, at the end.
StepOutcome train_step(Training& training, double learning_rate, double clip_norm);

/// 1.11: what PyTorch's autograd would derive from 1.1, written by hand. dout, x [rows, n], weight [n]; rstd [rows] as forward
/// wrote it. With a = dout * weight and y = x * rstd, in each row:
///   dx      += rstd * (a - y * mean(a * y))     added to: x is the residual stream, which has other readers
///   dweight += sum over rows of dout * y        added to: micro-batches accumulate
void rms_norm_backward(std::span<float> dx, std::span<float> dweight, std::span<const float> dout, std::span<const float> x,
                       std::span<const float> weight, std::span<const float> rstd);

/// 1.12: d loss / d x[i] by central differences, (loss(x + h e_i) - loss(x - h e_i)) / 2h, with a relative error below 1e-6 for a
/// smooth loss and elements whose magnitude is between 1e-3 and 1e3: choose h in proportion to x[i]. Afterwards x is what it was.
double numeric_derivative(const std::function<double(std::span<const double>)>& loss, std::span<double> x, std::size_t i);
}
