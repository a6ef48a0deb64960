// The exercises in a real run: as the CPU's kernels, in fp32, and as schedule and weight decay.
#include <algorithm>
#include <cmath>
#include <cohort/lab01_transformer.hpp>
#include <vector>

#include "base/error.hpp"
#include "labs/01_transformer/lab01_grades.hpp"
#include "ops/tuned.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/schedule.hpp"
#include "tensor/parameter.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

using ops::AttentionShape;
using ops::Exec;

// The table of kernels has plain functions, which find the learner's here.
struct Learner {
  decltype(&::rms_norm) rms_norm = nullptr;
  decltype(&::rms_norm_backward) rms_norm_backward = nullptr;
  decltype(&::apply_rotary) apply_rotary = nullptr;
  decltype(&::swiglu) swiglu = nullptr;
  decltype(&::causal_attention) causal_attention = nullptr;
  decltype(&::next_token_loss) next_token_loss = nullptr;
  std::vector<Library> loaded;
};

Learner& learner() {
  static Learner functions;
  return functions;
}

template <class Function>
Function* learners(const Library& library, const char* name) {
  learner().loaded.push_back(library);
  return library.function<Function>(name);
}

// Calls an exercise. All ranks have the same code, and so the same lack of it.
template <class Call>
auto call(const char* name, const Call& exercise) {
  try {
    return exercise();
  } catch (const lab::NotWritten&) {
    throw SharedError(ExitCode::usage, fmt::format("{} is not written yet", name));
  }
}

std::span<float> floats(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32)
    throw SharedError(ExitCode::usage, "kernels of your own compute in fp32: set precision.policy = \"fp32\"");
  return tensor.span<float>();
}

void rms_norm_kernel(const Exec&, const Tensor& out, const Tensor& rstd, const Tensor& x, const Tensor& weight, float epsilon) {
  call("rms_norm", [&] { learner().rms_norm(floats(out), floats(rstd), floats(x), floats(weight), epsilon); });
}

void rms_norm_backward_kernel(const Exec&, const Tensor& dx, const Tensor& dweight, const Tensor& dout, const Tensor& x,
                              const Tensor& weight, const Tensor& rstd) {
  call("rms_norm_backward",
       [&] { learner().rms_norm_backward(floats(dx), floats(dweight), floats(dout), floats(x), floats(weight), floats(rstd)); });
}

void swiglu_kernel(const Exec&, const Tensor& out, const Tensor& x) {
  const auto n = static_cast<std::size_t>(out.shape().columns());
  const std::span<float> all = floats(out), gates_and_ups = floats(x);
  for (std::size_t first = 0; first < all.size(); first += n) {
    const std::span<const float> row = gates_and_ups.subspan(2 * first, 2 * n);
    call("swiglu", [&] { learner().swiglu(all.subspan(first, n), row.first(n), row.last(n)); });
  }
}

// One head of one sample: its rows lie `stride` apart in the packed ones.
struct HeadRows {
  float* first;
  std::size_t tokens, size, stride;

  std::vector<float> copy() const {
    std::vector<float> rows(tokens * size);
    for (std::size_t t = 0; t < tokens; ++t)
      std::copy_n(first + t * stride, size, rows.begin() + static_cast<std::ptrdiff_t>(t * size));
    return rows;
  }
  void write(const std::vector<float>& rows) const {
    for (std::size_t t = 0; t < tokens; ++t)
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(t * size), size, first + t * stride);
  }
};

HeadRows head_of(const AttentionShape& s, const Tensor& packed, Count width, Count sample, Count head) {
  return {floats(packed).data() + sample * s.tokens * width + head * s.head_size, static_cast<std::size_t>(s.tokens),
          static_cast<std::size_t>(s.head_size), static_cast<std::size_t>(width)};
}

// Query and key heads, in place.
void rotate(const AttentionShape& s, const Tensor& qkv, std::span<const float> cosines, std::span<const float> sines) {
  for (Count b = 0; b < s.batch; ++b) {
    for (Count h = 0; h < s.heads + s.kv_heads; ++h) {
      const HeadRows head = head_of(s, qkv, s.packed_width(), b, h);
      const std::vector<float> before = head.copy();
      std::vector<float> turned(before.size());
      call("apply_rotary", [&] { learner().apply_rotary(turned, before, cosines, sines, s.head_size); });
      head.write(turned);
    }
  }
}

void rope_kernel(const Exec&, const AttentionShape& s, const Tensor& qkv, const Tensor& cosines, const Tensor& sines) {
  rotate(s, qkv, floats(cosines), floats(sines));
}

// The gradient of a rotation is the rotation back.
void rope_backward_kernel(const Exec&, const AttentionShape& s, const Tensor& dqkv, const Tensor& cosines, const Tensor& sines) {
  std::vector<float> back(floats(sines).begin(), floats(sines).end());
  for (float& sine : back) sine = -sine;
  rotate(s, dqkv, floats(cosines), back);
}

// The logarithm of each row's softmax denominator, which the engine's backward reads.
void write_lse(std::span<float> lse, std::span<const float> q, std::span<const float> k, std::size_t size) {
  for (std::size_t i = 0; i < lse.size(); ++i) {
    std::vector<double> scores;
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0.0;
      for (std::size_t d = 0; d < size; ++d) score += static_cast<double>(q[i * size + d]) * k[j * size + d];
      scores.push_back(score / std::sqrt(static_cast<double>(size)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (const double score : scores) sum += std::exp(score - largest);
    lse[i] = static_cast<float>(largest + std::log(sum));
  }
}

void attention_kernel(const Exec&, const AttentionShape& s, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                      const Tensor&, const ops::DropoutKey& dropout) {
  if (dropout.probability > 0.0 || s.first_keys != nullptr)
    throw SharedError(ExitCode::usage, "an attention of your own has neither dropout nor packed documents: leave both out");
  const Count group = s.heads / s.kv_heads;
  for (Count b = 0; b < s.batch; ++b) {
    for (Count h = 0; h < s.heads; ++h) {
      const auto part = [&](Count head) { return head_of(s, qkv, s.packed_width(), b, head).copy(); };
      const std::vector<float> q = part(h), k = part(s.heads + h / group), v = part(s.heads + s.kv_heads + h / group);
      std::vector<float> attended(q.size());
      call("causal_attention", [&] { learner().causal_attention(attended, q, k, v, s.head_size); });
      head_of(s, out, s.width(), b, h).write(attended);
      const auto tokens = static_cast<std::size_t>(s.tokens);
      write_lse(floats(lse).subspan(static_cast<std::size_t>(b * s.heads + h) * tokens, tokens), q, k,
                static_cast<std::size_t>(s.head_size));
    }
  }
}

// Context parallelism attends to one block of keys after the other, which is another op.
template <class... Arguments>
void no_partial_attention(Arguments...) {
  throw SharedError(ExitCode::usage, "an attention of your own sees whole samples: set parallel.cp = 1");
}

// The engine's rows have their targets already: a token before the first and a row behind the last make them the learner's.
void cross_entropy(const Tensor& loss_sum, const Tensor& logits, Count classes, std::span<const std::int32_t> targets,
                   float* scale) {
  const std::span<float> all = floats(logits);
  const std::size_t rows = targets.size(), columns = all.size() / rows, n = static_cast<std::size_t>(classes);
  std::vector<float> dense((rows + 1) * n), gradients(dense.size());
  for (std::size_t r = 0; r < rows; ++r)
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(r * columns), n, dense.begin() + static_cast<std::ptrdiff_t>(r * n));
  std::vector<std::int32_t> tokens{0};
  tokens.insert(tokens.end(), targets.begin(), targets.end());
  const double mean = call("next_token_loss", [&] { return learner().next_token_loss(dense, tokens, gradients); });
  const auto counting = static_cast<double>(std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; }));
  loss_sum.span<double>()[0] += mean * counting;
  if (scale == nullptr) return;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c)
      all[r * columns + c] = c < n ? static_cast<float>(gradients[r * n + c] * counting * *scale) : 0.0f;
  }
}

void cross_entropy_kernel(const Exec&, const Tensor& loss_sum, const Tensor& logits, Count classes,
                          std::span<const std::int32_t> targets) {
  cross_entropy(loss_sum, logits, classes, targets, nullptr);
}

void cross_entropy_backward_kernel(const Exec&, const Tensor& loss_sum, const Tensor& logits, Count classes,
                                   std::span<const std::int32_t> targets, float scale) {
  cross_entropy(loss_sum, logits, classes, targets, &scale);
}

}  // namespace

void use_rms_norm(const Library& library) {
  learner().rms_norm = learners<decltype(rms_norm)>(library, "rms_norm");
  ops::use_own_kernels([](ops::TunedKernels& kernels) { kernels.rmsnorm_forward = rms_norm_kernel; });
}

void use_rms_norm_backward(const Library& library) {
  learner().rms_norm_backward = learners<decltype(rms_norm_backward)>(library, "rms_norm_backward");
  ops::use_own_kernels([](ops::TunedKernels& kernels) { kernels.rmsnorm_backward = rms_norm_backward_kernel; });
}

void use_apply_rotary(const Library& library) {
  learner().apply_rotary = learners<decltype(apply_rotary)>(library, "apply_rotary");
  ops::use_own_kernels([](ops::TunedKernels& kernels) {
    kernels.rope_forward = rope_kernel;
    kernels.rope_backward = rope_backward_kernel;
  });
}

void use_swiglu(const Library& library) {
  learner().swiglu = learners<decltype(swiglu)>(library, "swiglu");
  ops::use_own_kernels([](ops::TunedKernels& kernels) { kernels.swiglu_forward = swiglu_kernel; });
}

void use_causal_attention(const Library& library) {
  learner().causal_attention = learners<decltype(causal_attention)>(library, "causal_attention");
  ops::use_own_kernels([](ops::TunedKernels& kernels) {
    kernels.attention_forward = attention_kernel;
    kernels.partial_attention_forward = no_partial_attention;
  });
}

void use_next_token_loss(const Library& library) {
  learner().next_token_loss = learners<decltype(next_token_loss)>(library, "next_token_loss");
  ops::use_own_kernels([](ops::TunedKernels& kernels) {
    kernels.cross_entropy_forward = cross_entropy_kernel;
    kernels.cross_entropy_forward_backward = cross_entropy_backward_kernel;
  });
}

void use_parameter_groups(const Library& library) {
  use_own_decay([library, fill = library.function<decltype(parameter_groups)>("parameter_groups")](const Parameter& parameter) {
    ModelTensor tensor{parameter.name, {}, !parameter.frozen};
    for (int dim = 0; dim < parameter.global_shape.dims(); ++dim) tensor.shape.push_back(parameter.global_shape[dim]);
    std::vector<DecayGroup> groups;
    call("parameter_groups", [&] { fill(groups, std::span(&tensor, 1), 1.0); });
    return std::any_of(groups.begin(), groups.end(),
                       [](const DecayGroup& group) { return group.weight_decay > 0.0 && !group.members.empty(); });
  });
}

void use_cosine_schedule(const Library& library) {
  use_own_cosine([library, rate = library.function<decltype(cosine_schedule)>("cosine_schedule")](const ScheduleSection& schedule,
                                                                                                  double peak, Count step) {
    const CosineSchedule own{schedule.warmup_steps, schedule.decay_steps, peak, peak * schedule.final_fraction};
    return call("cosine_schedule", [&] { return rate(own, step); });
  });
}

}  // namespace cohort::labs::lab01_transformer
