#include "ops/activation.hpp"

#include <array>

#include "ops/cuda/ops.hpp"
#include "ops/fast_math.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

// z/2 (1 + tanh(u)) = z sigmoid(2u), with u = sqrt(2/pi) (z + 0.044715 z^3).
constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

struct Gelu {
  static float value(float z) { return z * sigmoid(kTwoSqrtTwoOverPi * (z + kCubic * z * z * z)); }
  static float slope(float z) {
    const float s = sigmoid(kTwoSqrtTwoOverPi * (z + kCubic * z * z * z));
    return s + z * s * (1.0f - s) * kTwoSqrtTwoOverPi * (1.0f + 3.0f * kCubic * z * z);
  }
};

struct Relu {
  static float value(float z) { return z < 0.0f ? 0.0f : z; }  // NaN stays NaN
  static float slope(float z) { return z > 0.0f ? 1.0f : 0.0f; }
};

template <class Activation>
void bias_activation_forward(const Exec& exec, const char* label, const Tensor& out, const Tensor& x, const Tensor& bias) {
  COHORT_CHECK(out.elements() == x.elements() && bias.elements() == x.shape().columns(), "activation: {} from {} and bias {}",
               out.shape().str(), x.shape().str(), bias.shape().str());
  const Count n = x.shape().columns();
  float* y = out.f32();
  const float* xs = x.f32();
  const float* b = bias.f32();
  for_rows(exec, label, x.shape().rows(), [=](Count r) {
    const float* row = xs + r * n;
    float* yr = y + r * n;
#pragma omp simd
    for (Count c = 0; c < n; ++c) yr[c] = Activation::value(row[c] + b[c]);
  });
}

template <class Activation>
void bias_activation_backward(const Exec& exec, const char* label, const Tensor& dx, const Tensor& dbias, const Tensor& dout,
                              const Tensor& x, const Tensor& bias) {
  COHORT_CHECK(dx.elements() == x.elements() && dout.elements() == x.elements() && dbias.elements() == x.shape().columns(),
               "activation backward: {} from {} and bias {}", dx.shape().str(), x.shape().str(), dbias.shape().str());
  const Count rows = x.shape().rows();
  const Count n = x.shape().columns();
  float* dxs = dx.f32();
  float* db = dbias.f32();
  const float* dy = dout.f32();
  const float* xs = x.f32();
  const float* b = bias.f32();
  for_column_chunks(exec, label, n, [=](Count begin, Count end) {
    std::array<float, kColumnChunk> sums{};
    const Count width = end - begin;
    for (Count r = 0; r < rows; ++r) {
      const float* row = xs + r * n + begin;
      const float* dyr = dy + r * n + begin;
      float* dxr = dxs + r * n + begin;
      float* sum = sums.data();
#pragma omp simd
      for (Count c = 0; c < width; ++c) {
        const float d = dyr[c] * Activation::slope(row[c] + b[begin + c]);
        dxr[c] = d;
        sum[c] += d;
      }
    }
    for (Count c = 0; c < width; ++c) db[begin + c] += sums[static_cast<std::size_t>(c)];
  });
}

}  // namespace

void gelu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::gelu_forward(exec, out, x, bias);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return gelu_forward(exec, fp32.out(out), fp32.in(x), fp32.in(bias));
  }
  bias_activation_forward<Gelu>(exec, "cohort::gelu_forward", out, x, bias);
}
void gelu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::gelu_backward(exec, dx, dbias, dout, x, bias);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return gelu_backward(exec, fp32.out(dx), dbias, fp32.in(dout), fp32.in(x), fp32.in(bias));
  }
  bias_activation_backward<Gelu>(exec, "cohort::gelu_backward", dx, dbias, dout, x, bias);
}
void relu_forward(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::relu_forward(exec, out, x, bias);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return relu_forward(exec, fp32.out(out), fp32.in(x), fp32.in(bias));
  }
  bias_activation_forward<Relu>(exec, "cohort::relu_forward", out, x, bias);
}
void relu_backward(const Exec& exec, const Tensor& dx, const Tensor& dbias, const Tensor& dout, const Tensor& x,
                   const Tensor& bias) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::relu_backward(exec, dx, dbias, dout, x, bias);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return relu_backward(exec, fp32.out(dx), dbias, fp32.in(dout), fp32.in(x), fp32.in(bias));
  }
  bias_activation_backward<Relu>(exec, "cohort::relu_backward", dx, dbias, dout, x, bias);
}

void swiglu_forward(const Exec& exec, const Tensor& out, const Tensor& x) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::swiglu_forward(exec, out, x);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return swiglu_forward(exec, fp32.out(out), fp32.in(x));
  }
  const Count n = out.shape().columns();
  COHORT_CHECK(x.shape().columns() == 2 * n && x.shape().rows() == out.shape().rows(), "swiglu: {} from {}", out.shape().str(),
               x.shape().str());
  float* y = out.f32();
  const float* xs = x.f32();
  for_rows(exec, "cohort::swiglu_forward", out.shape().rows(), [=](Count r) {
    const float* gate = xs + r * 2 * n;
    const float* up = gate + n;
    float* yr = y + r * n;
#pragma omp simd
    for (Count c = 0; c < n; ++c) yr[c] = gate[c] * sigmoid(gate[c]) * up[c];
  });
}

void swiglu_backward(const Exec& exec, const Tensor& dx, const Tensor& dout, const Tensor& x) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::swiglu_backward(exec, dx, dout, x);
  }
  if (is_narrow(dx)) {
    Fp32Copies fp32;
    return swiglu_backward(exec, fp32.out(dx), fp32.in(dout), fp32.in(x));
  }
  const Count n = dout.shape().columns();
  COHORT_CHECK(x.shape().columns() == 2 * n && dx.elements() == x.elements(), "swiglu backward: {} from {}", dx.shape().str(),
               dout.shape().str());
  float* dxs = dx.f32();
  const float* dy = dout.f32();
  const float* xs = x.f32();
  for_rows(exec, "cohort::swiglu_backward", dout.shape().rows(), [=](Count r) {
    const float* gate = xs + r * 2 * n;
    const float* up = gate + n;
    const float* dyr = dy + r * n;
    float* dgate = dxs + r * 2 * n;
    float* dup = dgate + n;
#pragma omp simd
    for (Count c = 0; c < n; ++c) {
      const float s = sigmoid(gate[c]);
      const float silu = gate[c] * s;
      dgate[c] = dyr[c] * up[c] * (s + silu * (1.0f - s));
      dup[c] = dyr[c] * silu;
    }
  });
}

}  // namespace cohort::ops
