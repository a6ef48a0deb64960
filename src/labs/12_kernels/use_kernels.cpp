// The kernel table of CPUs with a learner's kernels in it. The table has plain functions, so each kernel lies in a variable of
// this file. Tensors of 16 bits are copied to fp32 and back, as the program's own fp32 kernels have it (ops/cpu/fp32_copies.hpp).
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "labs/12_kernels/grade_kernels.hpp"
#include "ops/cpu/fp32_copies.hpp"
#include "ops/pointwise.hpp"
#include "ops/tuned.hpp"
#include "tensor/convert.hpp"

namespace cohort::labs::lab12_kernels {
namespace {

using ops::Exec, ops::Fp32Copies;

// A learner's function; its library stays loaded.
template <class Function>
struct Own {
  std::optional<Library> library;
  Function* function = nullptr;
  std::string name;

  void take(const Library& from, const std::string& called) {
    library = from;
    name = called;
    function = from.function<Function>(called);
  }
  template <class... Args>
  void operator()(Args&&... args) const {
    try {
      function(std::forward<Args>(args)...);
    } catch (const lab::NotWritten&) {  // on all ranks alike
      throw SharedError(ExitCode::usage, name + " is not written yet");
    }
  }
};

Own<void(lab::Matrix, lab::Matrix, lab::Matrix)> own_matmul;
Own<void(std::span<float>, std::span<const float>, std::span<const float>)> own_gelu;
Own<void(std::span<float>, std::span<float>, std::span<const float>, std::span<const float>, std::span<const float>)>
    own_gelu_backward;
Own<void(Moments&, std::span<const float>)> own_moments;
Own<void(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, const AdamWSettings&)> own_adamw;

std::size_t to_size(Count count) { return static_cast<std::size_t>(count); }
std::span<float> whole(const Tensor& tensor) { return tensor.span<float>(); }

lab::Matrix matrix(float* data, Count rows, Count columns) { return {data, to_size(rows), to_size(columns)}; }
lab::Matrix matrix(const Tensor& tensor) { return matrix(tensor.f32(), tensor.shape().rows(), tensor.shape().columns()); }

// What the learner's product cannot take as it lies: the transpose of a matrix, or the first columns of padded rows.
class Rearranged {
 public:
  static Rearranged transposed(const Tensor& tensor, Count first_columns) {
    const Count rows = tensor.shape().rows(), stride = tensor.shape().columns();
    Rearranged made(first_columns, rows);
    for (Count r = 0; r < rows; ++r) {
      for (Count c = 0; c < first_columns; ++c) made.values_[to_size(c * rows + r)] = tensor.f32()[r * stride + c];
    }
    return made;
  }
  static Rearranged first_columns(const Tensor& tensor, Count columns) {
    const Count rows = tensor.shape().rows(), stride = tensor.shape().columns();
    Rearranged made(rows, columns);
    for (Count r = 0; r < rows; ++r) std::copy_n(tensor.f32() + r * stride, columns, made.values_.begin() + r * columns);
    return made;
  }
  static Rearranged zeros(Count rows, Count columns) { return {rows, columns}; }

  lab::Matrix view() { return matrix(values_.data(), rows_, columns_); }
  // Into the first columns of rows that may be longer.
  void copy_to(const Tensor& tensor) const {
    for (Count r = 0; r < rows_; ++r)
      std::copy_n(values_.begin() + r * columns_, columns_, tensor.f32() + r * tensor.shape().columns());
  }

 private:
  Rearranged(Count rows, Count columns) : rows_(rows), columns_(columns), values_(to_size(rows * columns)) {}
  Count rows_, columns_;
  std::vector<float> values_;
};

void linear_forward(const Exec& exec, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Fp32Copies fp32;
  const Tensor to = fp32.inout(y), from = fp32.in(x), w = fp32.in(weight);
  Rearranged w_transposed = Rearranged::transposed(w, w.shape()[1]);
  Rearranged product = Rearranged::zeros(from.shape().rows(), w.shape()[0]);
  own_matmul(product.view(), matrix(from), w_transposed.view());
  product.copy_to(to);
  if (bias.defined()) ops::add_bias(exec, to, fp32.in(bias));
}

void linear_residual_forward(const Exec& exec, const Tensor& y, const Tensor& residual, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
  Fp32Copies fp32;
  const Tensor to = fp32.out(y), from = fp32.in(x), w = fp32.in(weight), stream = fp32.in(residual);
  Rearranged w_transposed = Rearranged::transposed(w, w.shape()[1]);
  if (to.raw() != stream.raw()) to.copy_from(stream);
  own_matmul(matrix(to), matrix(from), w_transposed.view());
  if (bias.defined()) ops::add_bias(exec, to, fp32.in(bias));
}

void linear_backward_input(const Exec&, const Tensor& dx, const Tensor& dy, const Tensor& weight) {
  Fp32Copies fp32;
  const Tensor to = fp32.out(dx), from = fp32.in(dy), w = fp32.in(weight);
  to.zero();
  Rearranged of_outputs = Rearranged::first_columns(from, w.shape()[0]);
  own_matmul(matrix(to), of_outputs.view(), matrix(w));
}

void linear_backward_weight(const Exec& exec, const Tensor& dweight, const Tensor& dbias, const Tensor& dy, const Tensor& x) {
  Fp32Copies fp32;
  const Tensor dy32 = fp32.in(dy), x32 = fp32.in(x);
  Rearranged dy_transposed = Rearranged::transposed(dy32, dweight.shape()[0]);
  own_matmul(matrix(dweight), dy_transposed.view(), matrix(x32));
  if (dbias.defined()) ops::bias_backward(exec, dbias, dy);
}

void gelu_forward(const Exec&, const Tensor& out, const Tensor& x, const Tensor& bias) {
  Fp32Copies fp32;
  own_gelu(whole(fp32.out(out)), whole(fp32.in(x)), whole(fp32.in(bias)));
}

void gelu_backward(const Exec&, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x, const Tensor& bias) {
  Fp32Copies fp32;
  own_gelu_backward(whole(fp32.out(dx)), whole(dbias), whole(fp32.in(dout)), whole(fp32.in(x)), whole(fp32.in(bias)));
}

// The learner's moments, and the second half of the op: the row is still in the cache.
void layernorm_forward(const Exec&, const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, float epsilon) {
  Fp32Copies fp32;
  const Tensor to = fp32.out(out), from = fp32.in(x), w = fp32.in(weight), b = fp32.in(bias);
  const std::size_t columns = to_size(from.shape().columns());
  const std::span<float> xs = whole(from), ys = whole(to), ws = whole(w), bs = whole(b);
  for (std::size_t r = 0; r * columns < xs.size(); ++r) {
    const std::span<const float> row = xs.subspan(r * columns, columns);
    Moments moments{};
    own_moments(moments, row);
    const float scale = 1.0f / std::sqrt(moments.squares / moments.count + epsilon);
    for (std::size_t c = 0; c < columns; ++c) ys[r * columns + c] = (row[c] - moments.mean) * scale * ws[c] + bs[c];
    mean.f32()[r] = moments.mean;
    rstd.f32()[r] = scale;
  }
}

void adamw(const Exec&, const ops::AdamWTensors& tensors, const Tensor& ranges, const ops::AdamWStep& step,
           const Tensor& scalars) {
  const auto& decided = *reinterpret_cast<const ops::OptimizerScalars*>(scalars.data<std::uint8_t>());
  if (decided.skip != 0) return;
  const std::span all(reinterpret_cast<const ops::AdamWRange*>(ranges.data<std::uint8_t>()),
                      to_size(ranges.bytes()) / sizeof(ops::AdamWRange));
  for (const ops::AdamWRange& range : all) {
    const auto part = [&](const Tensor& of) { return whole(of).subspan(to_size(range.begin), to_size(range.end - range.begin)); };
    own_adamw(part(tensors.weight), part(tensors.m), part(tensors.v), part(tensors.gradient),
              AdamWSettings{.learning_rate = step.learning_rate,
                            .beta1 = step.beta1,
                            .beta2 = step.beta2,
                            .epsilon = step.epsilon,
                            .weight_decay = range.weight_decay,
                            .gradient_scale = decided.gradient_scale,
                            .step = static_cast<long>(step.step)});
  }
  if (tensors.compute.raw() != tensors.weight.raw()) convert(tensors.compute, tensors.weight);
}

}  // namespace

void use_matmul(const Library& library) {
  own_matmul.take(library, "matmul_blocked");
  ops::use_own_kernels([](ops::TunedKernels& table) {
    table.linear_forward = linear_forward;
    table.linear_residual_forward = linear_residual_forward;
    table.linear_backward_input = linear_backward_input;
    table.linear_backward_weight = linear_backward_weight;
  });
}

void use_gelu_forward(const Library& library) {
  own_gelu.take(library, "bias_gelu_forward");
  ops::use_own_kernels([](ops::TunedKernels& table) { table.gelu_forward = gelu_forward; });
}

void use_gelu_backward(const Library& library) {
  own_gelu_backward.take(library, "bias_gelu_backward");
  ops::use_own_kernels([](ops::TunedKernels& table) { table.gelu_backward = gelu_backward; });
}

void use_moments(const Library& library) {
  own_moments.take(library, "moments_add");
  ops::use_own_kernels([](ops::TunedKernels& table) { table.layernorm_forward = layernorm_forward; });
}

void use_adamw(const Library& library) {
  own_adamw.take(library, "adamw_fused");
  ops::use_own_kernels([](ops::TunedKernels& table) { table.adamw = adamw; });
}

}  // namespace cohort::labs::lab12_kernels
