// One call of gemm(), with everything that it reads and writes on the host and on the device, judged element by element against a
// product in double precision.
//
// Tolerances. With S the exact value, M the sum of the magnitudes of its terms, and k of them: fp32 sums may be off by (k/4 + 4)
// 2^-23 M (tensor cores add chunks of at least 4 products and truncate), TF32 by another 2^-9 M (two operands of 10 bits).
// Storing costs half a unit in the last place of the type, once more if the epilogue ran on a stored product. GELU's tanh may be
// the hardware's, with a relative error of 2^-11, where the result has 16 bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/dtype.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/gemm_check.hpp"

namespace cohort::gemm_check {

using ops::cuda::Epilogue;
using ops::cuda::GemmCall;
using ops::cuda::Matrix;

inline constexpr unsigned char kPoison = 0xFF;  // a NaN in every type

inline double load(DType dtype, const void* at, std::size_t i) {
  switch (dtype) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(at)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(at)[i]);
    default:
      return static_cast<const float*>(at)[i];
  }
}

inline void store(DType dtype, void* at, std::size_t i, float value) {
  switch (dtype) {
    case DType::bf16:
      static_cast<bf16*>(at)[i] = to_bf16(value);
      break;
    case DType::f16:
      static_cast<f16*>(at)[i] = to_f16(value);
      break;
    default:
      static_cast<float*>(at)[i] = value;
  }
}

// Half a unit in the last place, relative.
inline double rounding(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24; }

inline std::mt19937 generator(1);

// A row-major matrix with gaps, on the host and on the device. If rows begin at odd addresses, so does the matrix.
struct Array {
  Array(DType type, Count row_count, Count column_count, Count gap, float range)
      : dtype(type),
        rows(row_count),
        columns(column_count),
        stride(column_count + gap),
        offset(gap % 8 == 0 ? 0 : size_of(type)),
        host(bytes(), kPoison),
        device(static_cast<Bytes>(bytes()) + offset) {
    std::uniform_real_distribution<float> random(-range, range);
    for (Count i = 0; range > 0.0f && i < rows; ++i) {
      for (Count j = 0; j < columns; ++j) store(dtype, host.data(), index(i, j), random(generator));
    }
    gpu::copy(data(), host.data(), static_cast<Bytes>(host.size()));
  }
  std::size_t bytes() const { return static_cast<std::size_t>(std::max<Count>(1, rows * stride) * size_of(dtype)); }
  std::size_t index(Count i, Count j) const { return static_cast<std::size_t>(i * stride + j); }
  double at(Count i, Count j) const { return load(dtype, host.data(), index(i, j)); }
  void* data() const { return static_cast<unsigned char*>(device.data()) + offset; }
  Matrix matrix() const { return {data(), dtype, rows, columns, stride}; }
  // Reads the device's values; false if a gap between rows was written.
  bool fetch() {
    gpu::copy(host.data(), data(), static_cast<Bytes>(host.size()));
    const auto size = static_cast<std::size_t>(size_of(dtype));
    for (Count i = 0; i < rows; ++i) {
      for (std::size_t byte = index(i, columns) * size; byte < index(i, stride) * size; ++byte) {
        if (host[byte] != kPoison) return false;
      }
    }
    return true;
  }

  DType dtype;
  Count rows, columns, stride;
  Bytes offset;
  std::vector<unsigned char> host;
  Block device;
};

struct Sizes {
  Count m, n, k;
};

struct Form {
  const char* name;
  Epilogue epilogue;
  float alpha, beta;
  bool separate_residual;
};

struct Types {
  const char* name;
  DType in, out;
  bool tf32;
};

struct Exact {
  std::vector<double> value, magnitude;  // of op(a) op(b)
};

inline Exact product(const Array& a, bool ta, const Array& b, bool tb, const Sizes& s) {
  Exact exact{std::vector<double>(static_cast<std::size_t>(s.m * s.n)), {}};
  exact.magnitude = exact.value;
  for (Count i = 0; i < s.m; ++i) {
    for (Count l = 0; l < s.k; ++l) {
      const double x = ta ? a.at(l, i) : a.at(i, l);
      for (Count j = 0; j < s.n; ++j) {
        const double y = x * (tb ? b.at(j, l) : b.at(l, j));
        exact.value[static_cast<std::size_t>(i * s.n + j)] += y;
        exact.magnitude[static_cast<std::size_t>(i * s.n + j)] += std::abs(y);
      }
    }
  }
  return exact;
}

inline constexpr double kRoot = 0.7978845608028654;  // sqrt(2/pi)

inline double gelu(double z) { return 0.5 * z * (1.0 + std::tanh(kRoot * (z + 0.044715 * z * z * z))); }

inline double gelu_slope(double z) {
  const double t = std::tanh(kRoot * (z + 0.044715 * z * z * z));
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * kRoot * (1.0 + 3.0 * 0.044715 * z * z);
}

// The largest error so far, in units of its tolerance. NaN counts as infinite.
struct Worst {
  void add(double error, double tolerance) {
    if (error == 0.0) return;
    const double ratio = error / tolerance;
    share = std::isnan(ratio) ? INFINITY : std::max(share, ratio);
  }
  double share = 0.0;
};

// One call with all that it reads and writes. Judged element by element against the product of the same a and b.
class Case {
 public:
  Case(const Types& types, const Form& form, const Sizes& s, Count gap, const Array& a, bool ta, const Array& b, bool tb)
      : types_(types),
        form_(form),
        s_(s),
        ta_(ta),
        a_(a),
        residual_(types.out, s.m, s.n, gap, 1.0f),
        c_(types.out, s.m, s.n, gap, form.beta != 0.0f && !form.separate_residual ? 1.0f : 0.0f),
        bias_(types.out, 1, s.n, gap, 1.0f),
        aux_(types.out, s.m, s.n, gap, form.epilogue == Epilogue::dgelu ? 3.0f : 0.0f),
        gradient_(DType::f32, 1, s.m, gap, 1.0f),
        before_(c_.host),
        gradient_before_(gradient_.host) {
    GemmCall call{.c = c_.matrix(), .a = a.matrix(), .transpose_a = ta, .b = b.matrix(), .transpose_b = tb};
    call.alpha = form.alpha;
    call.beta = form.beta;
    call.epilogue = form.epilogue;
    call.bias = bias_.data();
    call.aux = aux_.data();
    call.aux_stride = aux_.stride;
    call.bias_gradient = static_cast<float*>(gradient_.data());
    if (form.separate_residual) call.residual = residual_.matrix();
    ops::cuda::gemm(call, types.tf32);
    wait();
    gaps_untouched_ = c_.fetch() && aux_.fetch() && residual_.fetch() && gradient_.fetch();
  }

  Worst judge(const Exact& exact) const {
    Worst worst;
    if (!gaps_untouched_) worst.share = INFINITY;
    for (Count i = 0; i < s_.m; ++i) {
      for (Count j = 0; j < s_.n; ++j) judge(worst, exact, i, j);
    }
    if (form_.epilogue == Epilogue::bias_gradient) judge_gradient(worst);
    return worst;
  }

 private:
  double sum_error() const { return (static_cast<double>(s_.k) / 4.0 + 4.0) * 0x1p-23; }

  void judge(Worst& worst, const Exact& exact, Count i, Count j) const {
    const auto e = static_cast<std::size_t>(i * s_.n + j);
    double value = form_.alpha * exact.value[e];
    double magnitude = std::abs(form_.alpha) * exact.magnitude[e];
    double tolerance = sum_error() * magnitude + (types_.tf32 ? 0x1p-9 * magnitude : 0.0);
    if (types_.out == DType::f16) tolerance += 0x1p-23;  // its numbers near zero are 2^-24 apart
    if (form_.beta != 0.0f) {
      const double r =
          form_.beta * (form_.separate_residual ? residual_.at(i, j) : load(c_.dtype, before_.data(), c_.index(i, j)));
      // Some of cuBLASLt's kernels round the product to the type of c before they add to it (seen with 16-bit types and small
      // sizes).
      if (types_.out != DType::f32) tolerance += rounding(types_.out) * std::abs(value);
      value += r;
      tolerance += 0x1p-22 * (std::abs(r) + magnitude);
    }
    const double ulp = rounding(types_.out);
    tolerance += ulp * std::abs(value);                              // an unfused product is stored before the epilogue
    const double slack = types_.out == DType::f32 ? 1e-5 : 0x1p-11;  // of tanh
    switch (form_.epilogue) {
      case Epilogue::none:
      case Epilogue::bias_gradient:
        break;
      case Epilogue::bias:
      case Epilogue::gelu_aux_bias:
        value += bias_.at(0, j);
        tolerance += ulp * std::abs(value) + 0x1p-22 * std::abs(bias_.at(0, j));
        if (form_.epilogue == Epilogue::bias) break;
        worst.add(std::abs(aux_.at(i, j) - value), tolerance);
        tolerance = 1.2 * tolerance + (1.2 * ulp + slack) * std::abs(value);  // |gelu'| < 1.13
        value = gelu(value);
        break;
      case Epilogue::dgelu: {
        const double z = aux_.at(i, j);
        tolerance = 1.2 * tolerance + (1.2 * ulp + slack * (1.0 + 2.0 * std::abs(z))) * std::abs(value);
        value *= gelu_slope(z);
        break;
      }
    }
    worst.add(std::abs(c_.at(i, j) - value), tolerance);
  }

  void judge_gradient(Worst& worst) const {
    for (Count i = 0; i < s_.m; ++i) {
      const double before = load(DType::f32, gradient_before_.data(), static_cast<std::size_t>(i));
      double value = before;
      double magnitude = std::abs(before);
      for (Count l = 0; l < s_.k; ++l) {
        const double x = ta_ ? a_.at(l, i) : a_.at(i, l);
        value += x;
        magnitude += std::abs(x);
      }
      worst.add(std::abs(gradient_.at(0, i) - value), sum_error() * magnitude);
    }
  }

  Types types_;
  Form form_;
  Sizes s_;
  bool ta_;
  const Array& a_;
  Array residual_, c_, bias_, aux_, gradient_;
  std::vector<unsigned char> before_, gradient_before_;  // c and the gradient as the call found them
  bool gaps_untouched_ = false;
};

}  // namespace cohort::gemm_check
