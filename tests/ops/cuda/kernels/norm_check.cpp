// Layer and RMS normalisation against ops/reference/norm.hpp.
#include "ops/cuda/norm/norm.hpp"

#include <algorithm>

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/norm.hpp"

namespace cohort::ops::check {
namespace {

constexpr double kEpsilon = 1e-5;

struct Case {
  DType dtype;
  bool mean;  // layer norm, else RMS
  Count rows, columns;
  Count shift = 0;  // elements by which all pointers are off 16 bytes

  std::string name(const char* what) const {
    return text("%snorm %s R=%lld C=%lld shift=%lld %s", mean ? "layer" : "rms", type_name(dtype), static_cast<long long>(rows),
                static_cast<long long>(columns), static_cast<long long>(shift), what);
  }
};

struct Problem {
  explicit Problem(const Case& c)
      : x(random_values(c.dtype, c.rows * c.columns, 1, 1.5, 0.5)),
        weight(random_values(c.dtype, c.columns, 2, 0.3, 1.0)),
        bias(random_values(c.dtype, c.columns, 3)),
        dout(random_values(c.dtype, c.rows * c.columns, 4)),
        dx_before(random_values(c.dtype, c.rows * c.columns, 5)),
        dweight_before(random_values(DType::f32, c.columns, 6)),
        dbias_before(random_values(DType::f32, c.columns, 7)) {}
  Array x, weight, bias, dout, dx_before, dweight_before, dbias_before;
};

struct Statistics {
  Buffer mean, rstd;
};

Statistics check_forward(const Case& c, const Problem& p) {
  const Buffer x = upload(c.dtype, p.x, c.shift);
  const Buffer weight = upload(c.dtype, p.weight, c.shift);
  const Buffer bias = upload(c.dtype, p.bias, c.shift);
  const Buffer out = poison(c.dtype, c.rows * c.columns, c.shift);
  Statistics s{poison(DType::f32, c.rows), poison(DType::f32, c.rows)};
  const auto epsilon = static_cast<float>(kEpsilon);
  reference::NormForward expected;
  if (c.mean) {
    cuda::layernorm_forward(nullptr, c.dtype, out.data(), s.mean.as<float>(), s.rstd.as<float>(), x.data(), weight.data(),
                            bias.data(), c.rows, c.columns, epsilon);
    expected = reference::layernorm_forward(p.x, p.weight, p.bias, c.rows, c.columns, static_cast<double>(epsilon));
    compare(c.name("mean"), download(DType::f32, s.mean), expected.mean, [](std::size_t) { return 8.0 * kEps; });
  } else {
    cuda::rmsnorm_forward(nullptr, c.dtype, out.data(), s.rstd.as<float>(), x.data(), weight.data(), c.rows, c.columns, epsilon);
    expected = reference::rmsnorm_forward(p.x, p.weight, c.rows, c.columns, static_cast<double>(epsilon));
  }
  compare(c.name("rstd"), download(DType::f32, s.rstd), expected.rstd,
          [&](std::size_t i) { return 16.0 * kEps * expected.rstd[i]; });
  // xhat of size up to 5, times the weight, plus the bias.
  compare(c.name("out"), download(c.dtype, out), expected.out, stored(c.dtype, expected.out, [&](std::size_t i) {
            const std::size_t column = i % static_cast<std::size_t>(c.columns);
            return 8.0 * kEps * (5.0 * std::abs(p.weight[column]) + std::abs(p.bias[column]));
          }));
  return s;
}

struct Backward {
  Buffer dx, dweight, dbias;
};

Backward run_backward(const Case& c, const Problem& p, const Statistics& s) {
  const Buffer x = upload(c.dtype, p.x, c.shift);
  const Buffer weight = upload(c.dtype, p.weight, c.shift);
  const Buffer dout = upload(c.dtype, p.dout, c.shift);
  const Buffer scratch(cuda::norm_backward_scratch_bytes(c.rows, c.columns));
  Backward b{upload(c.dtype, p.dx_before, c.shift), upload(DType::f32, p.dweight_before), upload(DType::f32, p.dbias_before)};
  if (c.mean) {
    cuda::layernorm_backward(nullptr, c.dtype, b.dx.data(), b.dweight.as<float>(), b.dbias.as<float>(), dout.data(), x.data(),
                             weight.data(), s.mean.as<float>(), s.rstd.as<float>(), c.rows, c.columns, scratch.data());
  } else {
    cuda::rmsnorm_backward(nullptr, c.dtype, b.dx.data(), b.dweight.as<float>(), dout.data(), x.data(), weight.data(),
                           s.rstd.as<float>(), c.rows, c.columns, scratch.data());
  }
  must(cudaGetLastError(), "launching a norm's backward");
  must(cudaDeviceSynchronize(), "running a norm's backward");
  return b;
}

// before + terms added up over the rows, and the sum of the sizes of all of these.
struct ColumnSum {
  Array expected, sizes;
};
ColumnSum column_sum(const Case& c, const Array& before, const std::function<double(std::size_t)>& term) {
  ColumnSum result{before, before};
  for (double& size : result.sizes) size = std::abs(size);
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.rows * c.columns); ++i) {
    const std::size_t column = i % static_cast<std::size_t>(c.columns);
    result.expected[column] += term(i);
    result.sizes[column] += std::abs(term(i));
  }
  return result;
}

void check_backward(const Case& c, const Problem& p, const Statistics& s) {
  const auto columns = static_cast<std::size_t>(c.columns);
  const double epsilon = static_cast<double>(static_cast<float>(kEpsilon));
  const auto forward = c.mean ? reference::layernorm_forward(p.x, p.weight, p.bias, c.rows, c.columns, epsilon)
                              : reference::rmsnorm_forward(p.x, p.weight, c.rows, c.columns, epsilon);
  const auto expected = c.mean ? reference::layernorm_backward(p.dout, p.x, p.weight, c.rows, c.columns, epsilon)
                               : reference::rmsnorm_backward(p.dout, p.x, p.weight, c.rows, c.columns, epsilon);
  const Backward b = run_backward(c, p, s);
  Array dx = p.dx_before;
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += expected.dx[i];
  const auto xhat = [&](std::size_t i) {
    return (p.x[i] - (c.mean ? forward.mean[i / columns] : 0.0)) * forward.rstd[i / columns];
  };
  const Array actual_dx = download(c.dtype, b.dx);
  // g, its mean and xhat * mean(g xhat), each of size up to 5 times |weight| of up to 2.5, times rstd.
  compare(c.name("dx"), actual_dx, dx, stored(c.dtype, dx, [&](std::size_t i) {
            return 8.0 * kEps * (std::abs(p.dx_before[i]) + forward.rstd[i / columns] * 10.0 * (1.0 + std::abs(xhat(i))));
          }));
  // xhat itself is off by a few kEps, which counts once for each row and in any direction.
  const double slack = sum_error(c.rows) + 8.0 * kEps;
  const ColumnSum dweight = column_sum(c, p.dweight_before, [&](std::size_t i) { return p.dout[i] * xhat(i); });
  compare(c.name("dweight"), download(DType::f32, b.dweight), dweight.expected,
          [&](std::size_t i) { return slack * dweight.sizes[i] + 8.0 * kEps * static_cast<double>(c.rows); });
  if (!c.mean) return;
  const ColumnSum dbias = column_sum(c, p.dbias_before, [&](std::size_t i) { return p.dout[i]; });
  compare(c.name("dbias"), download(DType::f32, b.dbias), dbias.expected, [&](std::size_t i) { return slack * dbias.sizes[i]; });
}

}  // namespace

void check_norms() {
  const std::vector<std::pair<Count, Count>> shapes{{1, 1},     {5, 7},     {3, 65},    {6, 256},   {37, 768}, {10, 1600},
                                                    {9, 2048},  {6, 2049},  {4, 4096},  {3, 5000},  {2, 8192}, {2, 8200},
                                                    {3, 16383}, {2, 16384}, {7000, 96}, {2777, 768}};
  for (const DType dtype : kTypes) {
    for (const bool mean : {true, false}) {
      for (const auto& [rows, columns] : shapes) {
        const Case c{dtype, mean, rows, columns};
        const Problem p(c);
        const Statistics s = check_forward(c, p);
        check_backward(c, p, s);
      }
      const Case shifted{dtype, mean, 5, 768, 1};
      const Problem p(shifted);
      check_backward(shifted, p, check_forward(shifted, p));

      const Case repeated{dtype, mean, 2777, 768};
      const Problem q(repeated);
      const Statistics s = check_forward(repeated, q);
      repeats(repeated.name("backward"), [&] {
        const Backward b = run_backward(repeated, q, s);
        return Outputs{b.dx.read(), b.dweight.read(), b.dbias.read()};
      });
    }
  }
}

}  // namespace cohort::ops::check
