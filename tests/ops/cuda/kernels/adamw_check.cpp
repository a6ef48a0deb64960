// AdamW, the sum of squares and what follows from the gradient's norm against ops/reference/adamw.hpp.
#include "ops/cuda/optimizer/adamw.hpp"

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/adamw.hpp"

namespace cohort::ops::check {
namespace {

constexpr AdamWStep kStep{3e-3f, 0.9f, 0.95f, 1e-8f, 3};
constexpr float kGradientScale = 0.25f;

struct Case {
  const char* name;
  DType working;
  Count elements;
  std::vector<AdamWRange> ranges;
  Count shift = 0;
};

// Neighbouring ranges of odd lengths with and without decay, with a gap after every third.
std::vector<AdamWRange> many_ranges(Count elements, Count longest) {
  const CounterRandom random(2024, RandomPurpose::test, 10);
  std::vector<AdamWRange> ranges;
  for (Count at = 0; at < elements;) {
    const double draw = random.uniform(ranges.size());
    const Count end = std::min(elements, at + 1 + static_cast<Count>(draw * static_cast<double>(longest)));
    ranges.push_back({at, end, ranges.size() % 2 == 0 ? 0.1f : 0.0f});
    at = end + (ranges.size() % 3 == 0 ? 5 : 0);
  }
  return ranges;
}

struct Problem {
  explicit Problem(const Case& c)
      : weight(random_values(DType::f32, c.elements, 1, 0.5)),
        m(random_values(DType::f32, c.elements, 2, 0.1)),
        v(random_values(DType::f32, c.elements, 3, 0.1)),
        gradient(random_values(DType::f32, c.elements, 4)) {
    for (double& value : v) value = std::abs(value);
  }
  Array weight, m, v, gradient;
};

struct Result {
  std::vector<std::uint8_t> weight, m, v, working;
};

Result run(const Case& c, const Problem& p, int skip) {
  const Buffer weight = upload(DType::f32, p.weight, c.shift);
  const Buffer m = upload(DType::f32, p.m, c.shift);
  const Buffer v = upload(DType::f32, p.v, c.shift);
  const Buffer gradient = upload(DType::f32, p.gradient, c.shift);
  const Buffer working = poison(c.working, c.elements, c.shift);
  const Buffer ranges = upload(c.ranges);
  const Buffer scalars = upload(std::vector<OptimizerScalars>{{kGradientScale, skip}});
  cuda::adamw(nullptr, weight.as<float>(), m.as<float>(), v.as<float>(), gradient.as<float>(), c.working,
              c.working == DType::f32 ? nullptr : working.data(), ranges.as<AdamWRange>(), static_cast<int>(c.ranges.size()),
              c.elements, kStep, scalars.as<OptimizerScalars>());
  return {weight.read(), m.read(), v.read(), working.read()};
}

std::string name_for(const Case& c, const char* what) {
  return text("adamw %s n=%lld working %s shift=%lld %s", c.name, static_cast<long long>(c.elements), type_name(c.working),
              static_cast<long long>(c.shift), what);
}

void check(const Case& c) {
  const Problem p(c);
  const Result actual = run(c, p, 0);
  // Elements outside all ranges must keep their bits: their tolerance is 0.
  std::vector<bool> touched(static_cast<std::size_t>(c.elements), false);
  reference::AdamWState expected{p.weight, p.m, p.v};
  for (const AdamWRange& range : c.ranges) {
    const auto begin = static_cast<std::size_t>(range.begin);
    const auto length = static_cast<std::size_t>(range.end - range.begin);
    const auto part = [&](const Array& a) { return Array(a.begin() + range.begin, a.begin() + range.end); };
    reference::AdamWState state{part(p.weight), part(p.m), part(p.v)};
    reference::adamw(state, Input(p.gradient).subspan(begin, length),
                     {static_cast<double>(kStep.learning_rate), static_cast<double>(kStep.beta1),
                      static_cast<double>(kStep.beta2), static_cast<double>(kStep.epsilon),
                      static_cast<double>(range.weight_decay), static_cast<double>(kGradientScale), kStep.step});
    for (std::size_t i = 0; i < length; ++i) {
      touched[begin + i] = true;
      expected.weight[begin + i] = state.weight[i];
      expected.m[begin + i] = state.m[i];
      expected.v[begin + i] = state.v[i];
    }
  }
  const auto allow = [&](const std::function<double(std::size_t)>& size) {
    return [&touched, size](std::size_t i) { return touched[i] ? 4.0 * kEps * size(i) : 0.0; };
  };
  const Array weight = decode(DType::f32, actual.weight);
  compare(name_for(c, "m"), decode(DType::f32, actual.m), expected.m,
          allow([&](std::size_t i) { return std::abs(p.m[i]) + std::abs(p.gradient[i]); }));
  compare(name_for(c, "v"), decode(DType::f32, actual.v), expected.v,
          allow([&](std::size_t i) { return p.v[i] + p.gradient[i] * p.gradient[i]; }));
  // A step of up to some tens of the learning rate, where v is small.
  compare(name_for(c, "weight"), weight, expected.weight, allow([&](std::size_t i) {
            return std::abs(p.weight[i]) + 4.0 * std::abs(expected.weight[i] - p.weight[i]) +
                   static_cast<double>(kStep.learning_rate) * (std::abs(p.m[i]) + std::abs(p.gradient[i])) /
                       std::sqrt(expected.v[i]);
          }));

  // The working copy is the new weight, rounded, and stays as it was (NaN) outside the ranges.
  const std::vector<std::uint8_t> rounded = encode(c.working, weight);
  const auto bytes = static_cast<std::size_t>(bytes_of(c.working));
  bool right = true;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    const bool written = touched[i / bytes] && c.working != DType::f32;
    right = right && actual.working[i] == (written ? rounded[i] : 0xff);
  }
  report(right, name_for(c, "working copy"), right ? "the weight, rounded" : "not the weight, rounded");

  const Result again = run(c, p, 0);
  const bool same = again.weight == actual.weight && again.m == actual.m && again.v == actual.v;
  report(same, name_for(c, "repeats"), same ? "the same bits twice" : "other bits the second time");
  const Result skipped = run(c, p, 1);
  const bool untouched = skipped.weight == encode(DType::f32, p.weight) && skipped.m == encode(DType::f32, p.m) &&
                         skipped.v == encode(DType::f32, p.v) &&
                         skipped.working == std::vector<std::uint8_t>(skipped.working.size(), 0xff);
  report(untouched, name_for(c, "skip"), untouched ? "leaves everything" : "changes something");
}

void check_sum_of_squares(Count n, Count shift) {
  const Array x = random_values(DType::f32, n, 1);
  const Buffer x_device = upload(DType::f32, x, shift);
  const Buffer scratch(cuda::sum_of_squares_scratch_bytes());
  const auto sum = [&] {
    Buffer result = upload(std::vector<double>{1.5});
    cuda::sum_of_squares(nullptr, result.as<double>(), x_device.as<float>(), n, scratch.data());
    must(cudaDeviceSynchronize(), "sum_of_squares");
    return result;
  };
  const double expected = 1.5 + reference::sum_of_squares(x);
  const std::string name = text("sum_of_squares n=%lld shift=%lld", static_cast<long long>(n), static_cast<long long>(shift));
  compare(name, Array{download_double(sum())}, Array{expected}, [&](std::size_t) { return 1e-12 * expected; });
  repeats(name, [&] { return Outputs{sum().read()}; });
}

}  // namespace

void check_adamw() {
  for (const DType working : kTypes) {
    check({"one range", working, 1, {{0, 1, 0.1f}}});
    check({"one range", working, 5, {{0, 5, 0.1f}}});
    check({"one range", working, 1000003, {{0, 1000003, 0.1f}}});
    check({"one range", working, 10007, {{0, 10007, 0.1f}}, 1});
    check({"two ranges", working, 8192, {{0, 2048, 0.1f}, {2048, 8192, 0.0f}}});
    check({"inside", working, 9000, {{4001, 4003, 0.1f}}});
    check({"short ranges", working, 5003, many_ranges(5003, 9)});
    check({"long ranges", working, 200003, many_ranges(200003, 9000)});
    check({"no range", working, 100, {}});
  }
  for (const Count n : {Count{0}, Count{1}, Count{5}, Count{4096}, Count{3000001}}) {
    for (const Count shift : {Count{0}, Count{1}}) check_sum_of_squares(n, shift);
  }
}

}  // namespace cohort::ops::check
