#include "ops/activation.hpp"

#include "ops/columns.hpp"
#include "ops/fast_math.hpp"
#include "ops/op_note.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

// z/2 (1 + tanh(u)) = z sigmoid(2u), with u = sqrt(2/pi) (z + 0.044715 z^3).
constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

struct Gelu {
  KOKKOS_INLINE_FUNCTION static float value(float z) { return z * sigmoid(kTwoSqrtTwoOverPi * (z + kCubic * z * z * z)); }
  KOKKOS_INLINE_FUNCTION static float slope(float z) {
    const float s = sigmoid(kTwoSqrtTwoOverPi * (z + kCubic * z * z * z));
    return s + z * s * (1.0f - s) * kTwoSqrtTwoOverPi * (1.0f + 3.0f * kCubic * z * z);
  }
};

struct Relu {
  KOKKOS_INLINE_FUNCTION static float value(float z) { return z < 0.0f ? 0.0f : z; }  // NaN stays NaN
  KOKKOS_INLINE_FUNCTION static float slope(float z) { return z > 0.0f ? 1.0f : 0.0f; }
};

template <class Activation, class T>
void forward_kernel(const Exec& exec, const char* label, Count rows, Count n, T* y, const T* x, const T* bias) {
  for_rows(
      exec, label, rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count first = row.index() * n;
        row.zip(
            n, [=](float z, float b, float& to) { to = Activation::value(z + b); }, in(x + first), in(bias), out(y + first));
      });
}

template <class Activation, class T>
void backward_kernel(const Exec& exec, const char* label, Count rows, Count n, T* dx, float* dbias, const T* dy, const T* x,
                     const T* bias) {
  sum_rows<float>(
      exec, label, rows, n, KOKKOS_LAMBDA(float d, float z, float b, float& to) { return to = d * Activation::slope(z + b); },
      KOKKOS_LAMBDA(Count c, float sum) { dbias[c] += sum; }, rows_in(dy, n), rows_in(x, n), each_row_in(bias), rows_out(dx, n));
}

template <class T>
void swiglu_forward_kernel(const Exec& exec, Count rows, Count n, T* y, const T* x) {
  for_rows(
      exec, "cohort::swiglu_forward", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const T* gate = x + row.index() * 2 * n;
        const T* up = gate + n;
        row.zip(
            n, [=](float g, float u, float& to) { to = g * sigmoid(g) * u; }, in(gate), in(up), out(y + row.index() * n));
      });
}

template <class T>
void swiglu_backward_kernel(const Exec& exec, Count rows, Count n, T* dx, const T* dy, const T* x) {
  for_rows(
      exec, "cohort::swiglu_backward", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const T* gate = x + row.index() * 2 * n;
        const T* up = gate + n;
        T* dgate = dx + row.index() * 2 * n;
        T* dup = dgate + n;
        row.zip(
            n,
            [=](float d, float g, float u, float& to_gate, float& to_up) {
              const float s = sigmoid(g);
              const float silu = g * s;
              to_gate = d * u * (s + silu * (1.0f - s));
              to_up = d * silu;
            },
            in(dy + row.index() * n), in(gate), in(up), out(dgate), out(dup));
      });
}

template <class Activation>
void bias_activation_forward(const Exec& exec, const char* label, const Tensor& out, const Tensor& x, const Tensor& bias) {
  COHORT_CHECK(out.elements() == x.elements() && bias.elements() == x.shape().columns(), "activation: {} from {} and bias {}",
               out.shape().str(), x.shape().str(), bias.shape().str());
  with_storage_type(x, [&]<class T>(T) {
    forward_kernel<Activation, T>(exec, label, x.shape().rows(), x.shape().columns(), out.data<T>(), x.data<T>(), bias.data<T>());
  });
}

template <class Activation>
void bias_activation_backward(const Exec& exec, const char* label, const Tensor& dx, const Tensor& dbias, const Tensor& dout,
                              const Tensor& x, const Tensor& bias) {
  COHORT_CHECK(dx.elements() == x.elements() && dout.elements() == x.elements() && dbias.elements() == x.shape().columns(),
               "activation backward: {} from {} and bias {}", dx.shape().str(), x.shape().str(), dbias.shape().str());
  with_storage_type(x, [&]<class T>(T) {
    backward_kernel<Activation, T>(exec, label, x.shape().rows(), x.shape().columns(), dx.data<T>(), dbias.f32(), dout.data<T>(),
                                   x.data<T>(), bias.data<T>());
  });
}

}  // namespace

void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
  const OpNote note("gelu_forward", {&x, &bias}, {&out});
  if (const auto kernel = tuned_kernels(exec).gelu_forward) return kernel(exec, out, x, bias);
  bias_activation_forward<Gelu>(exec, "cohort::gelu_forward", out, x, bias);
}
void gelu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias) {
  const OpNote note("gelu_backward", {&dout, &x, &bias}, {&dx, &dbias});
  if (const auto kernel = tuned_kernels(exec).gelu_backward) return kernel(exec, dx, dbias, dout, x, bias);
  bias_activation_backward<Gelu>(exec, "cohort::gelu_backward", dx, dbias, dout, x, bias);
}
void relu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
  const OpNote note("relu_forward", {&x, &bias}, {&out});
  if (const auto kernel = tuned_kernels(exec).relu_forward) return kernel(exec, out, x, bias);
  bias_activation_forward<Relu>(exec, "cohort::relu_forward", out, x, bias);
}
void relu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias) {
  const OpNote note("relu_backward", {&dout, &x, &bias}, {&dx, &dbias});
  if (const auto kernel = tuned_kernels(exec).relu_backward) return kernel(exec, dx, dbias, dout, x, bias);
  bias_activation_backward<Relu>(exec, "cohort::relu_backward", dx, dbias, dout, x, bias);
}

void swiglu_forward(const Exec& exec, const Tensor& out, const Tensor& x) {
  const OpNote note("swiglu_forward", {&x}, {&out});
  if (const auto kernel = tuned_kernels(exec).swiglu_forward) return kernel(exec, out, x);
  const Count n = out.shape().columns();
  COHORT_CHECK(x.shape().columns() == 2 * n && x.shape().rows() == out.shape().rows(), "swiglu: {} from {}", out.shape().str(),
               x.shape().str());
  with_storage_type(x, [&]<class T>(T) { swiglu_forward_kernel<T>(exec, out.shape().rows(), n, out.data<T>(), x.data<T>()); });
}

void swiglu_backward(const Exec& exec, const Tensor& dx, const Tensor& dout, const Tensor& x) {
  const OpNote note("swiglu_backward", {&dout, &x}, {&dx});
  if (const auto kernel = tuned_kernels(exec).swiglu_backward) return kernel(exec, dx, dout, x);
  const Count n = dout.shape().columns();
  COHORT_CHECK(x.shape().columns() == 2 * n && dx.elements() == x.elements(), "swiglu backward: {} from {}", dx.shape().str(),
               dout.shape().str());
  with_storage_type(
      x, [&]<class T>(T) { swiglu_backward_kernel<T>(exec, dout.shape().rows(), n, dx.data<T>(), dout.data<T>(), x.data<T>()); });
}

}  // namespace cohort::ops
