// 12.2, 12.3, 12.7: each element against double precision, and against what the usual mistakes give.
#include <array>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <limits>
#include <numbers>
#include <optional>
#include <vector>

#include "base/random.hpp"
#include "base/text.hpp"
#include "labs/12_kernels/grade_kernels.hpp"
#include "labs/grading/guarded.hpp"

namespace cohort::labs::lab12_kernels {
namespace {

// fp32 has 7 digits; tanh and a few roundings take one of them, relative to the largest summand of the result.
constexpr double kTolerance = 2e-6, kRounding = 5e-7;

bool near(double found, double expected, double size) {
  return std::fabs(found - expected) <= kTolerance * std::max(size, std::fabs(expected));
}

struct Known {
  double value;
  const char* words;
};

// " : what it looks like", if it is one of these; from within 20 times the tolerance, and if they are told apart by more.
std::string mistake(double found, double expected, std::initializer_list<Known> known) {
  for (const Known& one : known) {
    const double close = 20.0 * kTolerance * std::max(1e-3, std::fabs(one.value));
    if (std::fabs(found - one.value) <= close && std::fabs(expected - one.value) > 4.0 * close)
      return fmt::format(": {}", one.words);
  }
  return "";
}

double inner(double z) { return std::sqrt(2.0 / std::numbers::pi) * (z + 0.044715 * z * z * z); }
double gelu(double z) { return 0.5 * z * (1.0 + std::tanh(inner(z))); }
double gelu_slope(double z) {
  const double t = std::tanh(inner(z));
  return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * std::sqrt(2.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * z * z);
}

struct Rows {
  std::size_t rows, columns;
};
constexpr std::array<Rows, 7> kRows{{{2, 3}, {1, 1}, {5, 8}, {3, 17}, {64, 33}, {1, 300}, {0, 4}}};

std::vector<float> normals(std::size_t elements, std::uint64_t seed, float scale) {
  const CounterRandom random(seed, RandomPurpose::test);
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = scale * random.normals(i / 4)[i % 4];
  return values;
}

// Beside normals a few that are far out, where exp overflows.
std::vector<float> activations(const Rows& r) {
  std::vector<float> x = normals(r.rows * r.columns, 1, 2.0f);
  constexpr std::array<float, 5> kFarOut{0.0f, 40.0f, -40.0f, 1e4f, -1e4f};
  for (std::size_t i = 0; i < kFarOut.size() && 7 * i + 1 < x.size(); ++i) x[7 * i + 1] = kFarOut[i];
  return x;
}

std::string place(std::size_t element, const Rows& r) {
  return fmt::format("row {}, column {}", element / r.columns, element % r.columns);
}

// The element that is farthest from right, in what rounding explains; none if that explains all. 1 + tanh cancels for negative z:
// what is left is right to the digits of z.
template <class Expected>
std::optional<std::size_t> worst(std::span<const float> found, std::span<const float> x, std::span<const float> bias,
                                 const Expected& expected) {
  std::optional<std::size_t> at;
  double most = 1.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double z = static_cast<double>(x[i]) + bias[i % bias.size()], right = expected(i, z);
    const double off = std::fabs(found[i] - right) / (kTolerance * std::fabs(right) + kRounding * std::max(1e-3, std::fabs(z)));
    if (off <= most) continue;  // not so for NaN
    at = i;
    if (std::isnan(off)) return at;
    most = off;
  }
  return at;
}

void check_gelu(std::span<const float> out, std::span<const float> x, std::span<const float> bias, const Rows& r) {
  const auto at = worst(out, x, bias, [](std::size_t, double z) { return gelu(z); });
  if (!at) return;
  const std::size_t i = *at, row = i / r.columns;
  const double z = static_cast<double>(x[i]) + bias[i % r.columns];
  const double erf = 0.5 * z * (1.0 + std::erf(z / std::numbers::sqrt2));
  const double other_bias = row < bias.size() ? x[i] + static_cast<double>(bias[row]) : z;
  if (std::isnan(out[i]))
    reject("{}: gelu({:.6g} + {:.6g}) is NaN: exp of a large number is infinite, and infinity / infinity is no number",
           place(i, r), x[i], bias[i % r.columns]);
  reject("{}: gelu({:.6g} + {:.6g}) is {:.7g}, not {:.7g}{}", place(i, r), x[i], bias[i % r.columns], out[i], gelu(z),
         mistake(out[i], gelu(z),
                 {{gelu(x[i]), "that is gelu of x without the bias"},
                  {gelu(other_bias), "the bias is that of the row's number, but each column has its own"},
                  {erf, "that is the form with erf; GPT-2 has the one with tanh"}}));
}

using Forward = void(std::span<float>, std::span<const float>, std::span<const float>);
using Backward = void(std::span<float>, std::span<float>, std::span<const float>, std::span<const float>, std::span<const float>);

void check_forward(Forward* forward, const Rows& r) {
  const std::vector<float> x = activations(r), bias = normals(r.columns, 2, 1.0f);
  Guarded out(std::vector<float>(x.size(), 7.0f));
  forward(out.span(), x, bias);
  out.check("out");
  check_gelu(out.span(), x, bias, r);
  Guarded in_place(x);
  forward(in_place.span(), in_place.span(), bias);
  in_place.check("out");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (in_place[i] != out[i])
      reject("{}: with out = x it is {:.7g}, else {:.7g}: something of x was read after it was written over", place(i, r),
             in_place[i], out[i]);
  }
}

struct Gradients {
  std::vector<float> dout, x, bias, dbias_before;
};

void check_dx(std::span<const float> dx, const Gradients& g, const Rows& r) {
  const auto at = worst(dx, g.x, g.bias, [&](std::size_t i, double z) { return g.dout[i] * gelu_slope(z); });
  if (!at) return;
  const std::size_t i = *at;
  const double z = static_cast<double>(g.x[i]) + g.bias[i % r.columns], d = g.dout[i], expected = d * gelu_slope(z);
  reject(
      "{}: dx is {:.7g}, not {:.7g} (x + bias = {:.6g}, dout = {:.6g}){}", place(i, r), dx[i], expected, z, d,
      mistake(dx[i], expected,
              {{d * gelu_slope(g.x[i]), "that is the slope at x, without the bias"},
               {d * 0.5 * (1.0 + std::tanh(inner(z))), "z stands before the bracket and in it: the product rule has two terms"},
               {gelu_slope(z), "that is the slope alone: dout multiplies it"},
               {d * gelu(z), "that is dout times gelu, not times its slope"}}));
}

void check_dbias(std::span<const float> dbias, const Gradients& g, const Rows& r) {
  for (std::size_t c = 0; c < r.columns; ++c) {
    double sum = 0.0, of_dout = 0.0, size = 0.0;
    for (std::size_t row = 0; row < r.rows; ++row) {
      const std::size_t i = row * r.columns + c;
      const double term = g.dout[i] * gelu_slope(static_cast<double>(g.x[i]) + g.bias[c]);
      sum += term;
      of_dout += g.dout[i];
      size += std::fabs(term);
    }
    const double before = g.dbias_before[c], expected = before + sum;
    if (near(dbias[c], expected, 10.0 * (size + std::fabs(before)))) continue;  // a rounding for each row
    reject("column {}: dbias is {:.7g}, not {:.7g}{}", c, dbias[c], expected,
           mistake(dbias[c], expected,
                   {{sum, "what it held before is lost: gradients of parameters are added up"},
                    {before + of_dout, "that is the sum of dout, not of dx"},
                    {before, "nothing was added to it"}}));
  }
}

void check_backward(Backward* backward, const Rows& r) {
  const Gradients g{normals(r.rows * r.columns, 3, 1.0f), activations(r), normals(r.columns, 2, 1.0f),
                    normals(r.columns, 4, 1.0f)};
  Guarded dx(std::vector<float>(g.x.size(), 7.0f)), dbias(g.dbias_before);
  backward(dx.span(), dbias.span(), g.dout, g.x, g.bias);
  dx.check("dx");
  dbias.check("dbias");
  check_dx(dx.span(), g, r);
  check_dbias(dbias.span(), g, r);
  Guarded in_place(g.dout), again(g.dbias_before);
  backward(in_place.span(), again.span(), in_place.span(), g.x, g.bias);
  in_place.check("dx");
  again.check("dbias");
  for (std::size_t i = 0; i < g.x.size(); ++i) {
    if (in_place[i] != dx[i])
      reject("{}: with dx = dout it is {:.7g}, else {:.7g}: something of dout was read after it was written over", place(i, r),
             in_place[i], dx[i]);
  }
  for (std::size_t c = 0; c < r.columns; ++c) {
    if (again[c] != dbias[c])
      reject("column {}: with dx = dout dbias is {:.7g}, else {:.7g}: it was summed from something that was written over", c,
             again[c], dbias[c]);
  }
}

template <class Check>
void for_each_shape(Grading& grading, const Check& check) {
  for (const Rows& r : kRows) {
    grading.begin(fmt::format("{} of {}", counted(static_cast<Count>(r.rows), "row"), r.columns));
    check(r);
  }
}

using AdamW = void(std::span<float>, std::span<float>, std::span<float>, std::span<const float>, const AdamWSettings&);

struct AdamWState {
  double w, m, v;
};

AdamWState stepped(const AdamWState& s, double gradient, const AdamWSettings& a) {
  const double g = a.gradient_scale * gradient, b1 = a.beta1, b2 = a.beta2;
  const double m = b1 * s.m + (1.0 - b1) * g, v = b2 * s.v + (1.0 - b2) * g * g;
  const auto steps = static_cast<double>(a.step);
  const double direction = m / (1.0 - std::pow(b1, steps)) / (std::sqrt(v / (1.0 - std::pow(b2, steps))) + a.epsilon);
  return {s.w - a.learning_rate * (direction + a.weight_decay * s.w), m, v};
}

// What the usual mistakes make of the weight.
std::string adamw_mistake(double found, double expected, const AdamWState& s, double gradient, const AdamWSettings& a) {
  const auto with = [&](auto change) {
    AdamWSettings changed = a;
    change(changed);
    return changed;
  };
  const AdamWState right = stepped(s, gradient, a);
  const double rate = a.learning_rate, decay = a.weight_decay;
  const double uncorrected = s.w - rate * (right.m / (std::sqrt(right.v) + a.epsilon) + decay * s.w);
  const double coupled = stepped(s, gradient + decay * s.w / a.gradient_scale, with([](auto& x) { x.weight_decay = 0.0f; })).w;
  const auto steps = static_cast<double>(a.step);
  const double m_hat = right.m / (1.0 - std::pow(double{a.beta1}, steps)),
               v_hat = right.v / (1.0 - std::pow(double{a.beta2}, steps));
  return mistake(
      found, expected,
      {{uncorrected, "that is without bias correction"},
       {stepped(s, gradient, with([](auto& x) { ++x.step; })).w, "the bias correction is that of the next step"},
       {stepped(s, gradient, with([](auto& x) { --x.step; })).w,
        "the bias correction is that of the step before: steps count from 1"},
       {coupled, "the decay went into the gradient: that is Adam with L2, in AdamW it passes m and v by"},
       {s.w - rate * (m_hat / std::sqrt(v_hat + a.epsilon) + decay * s.w), "epsilon stands outside of the root"},
       {s.w - rate * m_hat / (std::sqrt(v_hat) + a.epsilon), "that is without weight decay"},
       {s.w - rate * m_hat / (std::sqrt(v_hat) + a.epsilon) - decay * s.w, "the learning rate multiplies the decay, too"},
       {stepped(s, gradient, with([](auto& x) { x.gradient_scale = 1.0f; })).w,
        "the gradient was not multiplied by gradient_scale"}});
}

void check_adamw(AdamW* adamw, std::size_t elements, AdamWSettings settings) {
  std::vector<float> gradient = normals(elements, 5, 0.1f);
  if (elements > 2) gradient[2] = 0.0f;
  std::vector<float> second = normals(elements, 6, 0.1f), weights = normals(elements, 7, 1.0f);
  for (float& v : second) v = settings.step == 1 ? 0.0f : v * v;
  std::vector<float> first = settings.step == 1 ? std::vector<float>(elements) : normals(elements, 8, 0.1f);
  Guarded w(weights), m(first), v(second);
  adamw(w.span(), m.span(), v.span(), gradient, settings);
  w.check("w");
  m.check("m");
  v.check("v");
  for (std::size_t i = 0; i < elements; ++i) {
    const AdamWState before{weights[i], first[i], second[i]}, right = stepped(before, gradient[i], settings);
    if (!near(m[i], right.m, std::fabs(before.m)))
      reject("element {}: m is {:.7g}, not {:.7g}{}", i, m[i], right.m,
             mistake(m[i], right.m,
                     {{m[i] == before.m ? before.m : right.m, "it is as it was"},
                      {stepped(before, gradient[i] + settings.weight_decay * before.w / settings.gradient_scale, settings).m,
                       "the decay went into the gradient: that is Adam with L2, in AdamW it passes m and v by"},
                      {settings.beta1 * before.m + (1.0 - settings.beta1) * gradient[i],
                       "the gradient was not multiplied by gradient_scale"}}));
    if (!near(v[i], right.v, std::fabs(before.v))) reject("element {}: v is {:.7g}, not {:.7g}", i, v[i], right.v);
    // The step of fp32 weights rounds to 6e-8 of the weight; the step itself has the digits of the rest.
    const double allowed = 1e-7 * std::fabs(before.w) + 20.0 * kTolerance * std::fabs(right.w - before.w);
    if (std::isnan(w[i]))
      reject("element {}: w is NaN: steps count from 1; at step 0 the correction 1 - beta^step would be 0", i);
    if (!(std::fabs(w[i] - right.w) <= allowed))
      reject("element {}: w is {:.7g}, not {:.7g}{}", i, w[i], right.w,
             adamw_mistake(w[i], right.w, before, gradient[i], settings));
  }
}

}  // namespace

void grade_gelu_forward(const Library& library, Grading& grading) {
  auto* forward = library.function<Forward>("bias_gelu_forward");
  for_each_shape(grading, [&](const Rows& r) { check_forward(forward, r); });
}

void grade_gelu_backward(const Library& library, Grading& grading) {
  auto* backward = library.function<Backward>("bias_gelu_backward");
  for_each_shape(grading, [&](const Rows& r) { check_backward(backward, r); });
}

void grade_adamw(const Library& library, Grading& grading) {
  auto* adamw = library.function<AdamW>("adamw_fused");
  for (const long step : {1L, 2L, 10L, 5000L}) {
    for (const std::size_t elements : {std::size_t{5}, std::size_t{1}, std::size_t{0}, std::size_t{1003}}) {
      for (const float epsilon : {1e-2f, 1e-8f}) {  // the first is large enough to see where it stands
        grading.begin(fmt::format("step {}, {}, epsilon {:g}", step, counted(static_cast<Count>(elements), "element"), epsilon));
        check_adamw(adamw, elements, {0.03f, 0.9f, 0.95f, epsilon, 0.1f, 0.5f, step});
      }
    }
  }
  grading.begin("step 3, 10 elements, beta2 0.999, no decay, no clipping");
  check_adamw(adamw, 10, {1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, 3});
}

}  // namespace cohort::labs::lab12_kernels
