// The ops that treat a row, or an element, by itself. fp32 sums of a hundred products are right to 1e-5.
#include <array>
#include <cmath>
#include <cohort/lab01_transformer.hpp>

#include "base/text.hpp"
#include "labs/01_transformer/lab01_cases.hpp"
#include "labs/01_transformer/lab01_grades.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

constexpr double kTolerance = 1e-5;
constexpr float kEpsilon = 1e-5f;

struct NormCase {
  std::size_t rows, n;
  double deviation;  // of x: with 1e-3 epsilon counts
};
constexpr std::array kNormCases{NormCase{1, 4, 1.0}, NormCase{3, 5, 1.0},   NormCase{2, 64, 1.0}, NormCase{4, 7, 1e-3},
                                NormCase{2, 1, 1.0}, NormCase{3, 33, 30.0}, NormCase{2, 6, 0.0},  NormCase{0, 8, 1.0}};

struct NormInput {
  std::vector<float> x, weight, dout;
  Doubles rstd;  // by row
};

NormInput norm_input(Grading& grading, const NormCase& sizes) {
  const auto [rows, n, deviation] = sizes;
  grading.begin(fmt::format("{} of {} of magnitude {:g}", counted(static_cast<Count>(rows), "row"),
                            counted(static_cast<Count>(n), "element"), deviation));
  NormInput in{
      normal_values(rows * n, 11, deviation, deviation), normal_values(n, 12, 0.3, 1.0), normal_values(rows * n, 13), {}};
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) squares += std::pow(in.x[r * n + i], 2);
    in.rstd.push_back(1.0 / std::sqrt(squares / static_cast<double>(n) + kEpsilon));
  }
  return in;
}

// out by another idea of what to subtract, what to multiply with and what the weight is.
Doubles norm_by(const NormInput& in, std::size_t n, double (*scale)(std::span<const float> row), bool centred = false,
                double weight_offset = 0.0, double weight_factor = 1.0) {
  Doubles out;
  for (std::size_t first = 0; first < in.x.size(); first += n) {
    const std::span<const float> row = std::span(in.x).subspan(first, n);
    double mean = 0.0;
    for (const float value : row) mean += value / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      out.push_back((row[i] - (centred ? mean : 0.0)) * scale(row) * (weight_offset + weight_factor * in.weight[i]));
  }
  return out;
}

double sum_of_squares(std::span<const float> row) {
  double sum = 0.0;
  for (const float value : row) sum += static_cast<double>(value) * value;
  return sum;
}
double mean_of_squares(std::span<const float> row) { return sum_of_squares(row) / static_cast<double>(row.size()); }
double variance(std::span<const float> row) {
  double mean = 0.0;
  for (const float value : row) mean += value / static_cast<double>(row.size());
  return mean_of_squares(row) - mean * mean;
}

double right(std::span<const float> row) { return 1.0 / std::sqrt(mean_of_squares(row) + kEpsilon); }
double of_sum(std::span<const float> row) { return 1.0 / std::sqrt(sum_of_squares(row) + kEpsilon); }
double without_epsilon(std::span<const float> row) { return 1.0 / std::sqrt(mean_of_squares(row)); }
double epsilon_outside(std::span<const float> row) { return 1.0 / (std::sqrt(mean_of_squares(row)) + kEpsilon); }
double of_variance(std::span<const float> row) { return 1.0 / std::sqrt(variance(row) + kEpsilon); }
double not_at_all(std::span<const float>) { return 1.0; }
double without_root(std::span<const float> row) { return 1.0 / (mean_of_squares(row) + kEpsilon); }

// One mean for all rows.
Doubles norm_of_all(const NormInput& in) {
  const double scale = in.x.empty() ? 0.0 : right(in.x);
  Doubles out;
  for (std::size_t i = 0; i < in.x.size(); ++i) out.push_back(in.x[i] * scale * in.weight[i % in.weight.size()]);
  return out;
}

void check_norm(const Library& library, Grading& grading, const NormCase& sizes) {
  const NormInput in = norm_input(grading, sizes);
  Guarded out = unwritten(in.x.size()), rstd = unwritten(sizes.rows);
  library.function<decltype(rms_norm)>("rms_norm")(out.span(), rstd.span(), in.x, in.weight, kEpsilon);
  check_values("out", out, sizes.n, norm_by(in, sizes.n, right), kTolerance,
               {{norm_by(in, sizes.n, of_sum), "this divides by the root of the sum of squares, not of their mean"},
                {norm_by(in, sizes.n, without_epsilon), "without epsilon; small rows become too large, and rows of zeros NaN"},
                {norm_by(in, sizes.n, epsilon_outside), "epsilon belongs under the root"},
                {norm_by(in, sizes.n, of_variance, true), "that is LayerNorm: RMSNorm subtracts no mean"},
                {norm_by(in, sizes.n, without_root), "the root is missing"},
                {norm_by(in, sizes.n, not_at_all), "nothing divides by the size of the row"},
                {norm_of_all(in), "that is the mean over all rows: each row has its own"},
                {norm_by(in, sizes.n, right, false, 1.0, 0.0), "the weight is missing"},
                {norm_by(in, sizes.n, right, false, 1.0), "this multiplies by 1 + weight, as Gemma does"}});
  Doubles roots;
  for (const double value : in.rstd) roots.push_back(1.0 / value);
  check_values("rstd", rstd, 1, in.rstd, kTolerance, {{roots, "that is the root itself, not its reciprocal"}});
}

}  // namespace

void grade_rms_norm(const Library& library, Grading& grading) {
  for (const NormCase& sizes : kNormCases) check_norm(library, grading, sizes);
}

namespace {

struct NormGradients {
  Doubles dx, dweight;
};

// dx = kept + rstd (a - project y mean(a y)), dweight = kept + sum of dout y.
NormGradients norm_gradients(const NormInput& in, const std::vector<float>& dx, const std::vector<float>& dweight,
                             double project) {
  NormGradients found{{dx.begin(), dx.end()}, {dweight.begin(), dweight.end()}};
  const std::size_t n = in.weight.size();
  for (std::size_t r = 0; r < in.rstd.size(); ++r) {
    double along = 0.0;
    for (std::size_t i = r * n; i < (r + 1) * n; ++i) along += in.dout[i] * in.weight[i % n] * in.x[i] * in.rstd[r];
    for (std::size_t i = r * n; i < (r + 1) * n; ++i) {
      const double y = in.x[i] * in.rstd[r];
      found.dx[i] += in.rstd[r] * (in.dout[i] * in.weight[i % n] - project * y * along / static_cast<double>(n));
      found.dweight[i % n] += in.dout[i] * y;
    }
  }
  return found;
}

}  // namespace

void grade_rms_norm_backward(const Library& library, Grading& grading) {
  for (const NormCase& sizes : kNormCases) {
    const NormInput in = norm_input(grading, sizes);
    const std::vector<float> dx_before = normal_values(in.x.size(), 14), dweight_before = normal_values(sizes.n, 15);
    Guarded dx(dx_before), dweight(dweight_before);
    const std::vector<float> rstd(in.rstd.begin(), in.rstd.end());
    library.function<decltype(rms_norm_backward)>("rms_norm_backward")(dx.span(), dweight.span(), in.dout, in.x, in.weight, rstd);
    const NormGradients expected = norm_gradients(in, dx_before, dweight_before, 1.0);
    const std::vector<float> none(in.x.size()), no_weights(sizes.n);
    // dx cancels where a and y are parallel (n = 1): what is left is a rounding of its summands
    const double tolerance = sizes.n == 1 ? 1e-4 : kTolerance;
    check_values(
        "dx", dx, sizes.n, expected.dx, tolerance,
        {{norm_gradients(in, dx_before, dweight_before, 0.0).dx,
          "rstd depends on x, too: what comes of that, the term with y, is missing"},
         {norm_gradients(in, dx_before, dweight_before, static_cast<double>(sizes.n)).dx,
          "the term with y has the sum of a y, not its mean"},
         {norm_gradients(in, none, no_weights, 1.0).dx, "this overwrites what the other readers of x have added before"}});
    check_values("dweight", dweight, sizes.n, expected.dweight, tolerance,
                 {{norm_gradients(in, none, no_weights, 1.0).dweight, "this overwrites the gradients of earlier micro-batches"}});
  }
}

void grade_rotate_half(const Library& library, Grading& grading) {
  for (const std::size_t size : std::array<std::size_t, 5>{4, 2, 6, 64, 0}) {
    grading.begin(fmt::format("a row of {}", size));
    std::vector<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<float>(i + 1);
    Doubles expected(size), other_half(size), neighbours(size), without_sign(size);
    for (std::size_t i = 0; i < size; ++i) {
      const bool first = i < size / 2;
      without_sign[i] = x[(i + size / 2) % size];
      expected[i] = (first ? -1.0 : 1.0) * without_sign[i];
      other_half[i] = -expected[i];
      neighbours[i] = i % 2 == 0 ? -x[i + 1] : x[i - 1];
    }
    Guarded out = unwritten(size);
    library.function<decltype(rotate_half)>("rotate_half")(out.span(), x);
    check_values("out", out, size, expected, 0.0,
                 {{other_half, "the minus belongs to what comes from the second half"},
                  {neighbours, "these pairs are neighbours, as in GPT-J: Llama's are half a row apart"},
                  {without_sign, "the halves are swapped, but nothing has become negative"}});
  }
}

namespace {

struct RotaryCase {
  std::size_t tokens, size;
};

// Which element is whose partner, which row of the tables is read, and the direction.
Doubles rotated(const RotaryCase& sizes, const std::vector<float>& x, const std::vector<float>& cosines,
                const std::vector<float>& sines, double direction, bool neighbours, bool first_row) {
  Doubles out(x.size());
  const std::size_t half = sizes.size / 2;
  for (std::size_t t = 0; t < sizes.tokens; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t a = t * sizes.size + (neighbours ? 2 * i : i), b = neighbours ? a + 1 : a + half;
      const double c = cosines[(first_row ? 0 : t) * half + i], s = direction * sines[(first_row ? 0 : t) * half + i];
      out[a] = x[a] * c - x[b] * s;
      out[b] = x[b] * c + x[a] * s;
    }
  }
  return out;
}

}  // namespace

void grade_apply_rotary(const Library& library, Grading& grading) {
  auto* rotary = library.function<decltype(apply_rotary)>("apply_rotary");
  for (const RotaryCase& sizes : std::array<RotaryCase, 6>{{{3, 4}, {1, 2}, {5, 8}, {4, 6}, {7, 16}, {0, 4}}}) {
    grading.begin(fmt::format("{} tokens, head size {}", sizes.tokens, sizes.size));
    const std::vector<float> x = normal_values(sizes.tokens * sizes.size, 21);
    std::vector<float> cosines, sines, back;
    for (std::size_t t = 0; t < sizes.tokens; ++t) {
      for (std::size_t i = 0; i < sizes.size / 2; ++i) {
        const double angle =
            static_cast<double>(t + 1) * std::pow(10.0, -2.0 * static_cast<double>(i) / static_cast<double>(sizes.size));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
        back.push_back(-sines.back());
      }
    }
    Guarded out = unwritten(x.size()), again = unwritten(x.size());
    rotary(out.span(), x, cosines, sines, static_cast<std::int64_t>(sizes.size));
    const auto variant = [&](double direction, bool neighbours, bool first_row) {
      return rotated(sizes, x, cosines, sines, direction, neighbours, first_row);
    };
    check_values("out", out, sizes.size, variant(1.0, false, false), kTolerance,
                 {{variant(-1.0, false, false), "it turns the other way: is the sign in rotate_half right?"},
                  {variant(1.0, true, false), "these pairs are neighbours, as in GPT-J: Llama's are half a row apart"},
                  {variant(1.0, false, true), "every token has turned by the angles of the first one"}});
    rotary(again.span(), out.span(), cosines, back, static_cast<std::int64_t>(sizes.size));
    check_values("turned back by the opposite angles, out", again, sizes.size, {x.begin(), x.end()}, kTolerance);
  }
}

void grade_swiglu(const Library& library, Grading& grading) {
  for (const std::size_t size : std::array<std::size_t, 4>{7, 1, 0, 64}) {
    grading.begin(fmt::format("{} elements", size));
    std::vector<float> gate = normal_values(size, 31, 2.0);
    const std::vector<float> up = normal_values(size, 32);
    if (size == 64) {
      grading.begin("gates of 100, -100, 1e4 and -1e4 among them");
      gate[0] = 100.0f, gate[5] = -100.0f, gate[6] = 1e4f, gate[63] = -1e4f;
    }
    Doubles expected, without_gate, swapped, relu;
    for (std::size_t i = 0; i < size; ++i) {
      const double sigmoid = 1.0 / (1.0 + std::exp(-static_cast<double>(gate[i])));
      expected.push_back(gate[i] * sigmoid * up[i]);
      without_gate.push_back(sigmoid * up[i]);
      swapped.push_back(up[i] / (1.0 + std::exp(-static_cast<double>(up[i]))) * gate[i]);
      relu.push_back(std::max(0.0f, gate[i]) * up[i]);
    }
    Guarded out = unwritten(size);
    library.function<decltype(swiglu)>("swiglu")(out.span(), gate, up);
    check_values("out", out, size, expected, kTolerance,
                 {{without_gate, "that is sigmoid(gate) * up, GLU: silu multiplies by the gate itself, too"},
                  {swapped, "gate and up have changed places: silu is of the gate"},
                  {relu, "that is relu(gate) * up, ReGLU"}});
  }
}

}  // namespace cohort::labs::lab01_transformer
