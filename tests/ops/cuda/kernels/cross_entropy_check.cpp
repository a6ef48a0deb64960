// Softmax, cross-entropy and its gradient against ops/reference/cross_entropy.hpp.
#include "ops/cuda/loss/cross_entropy.hpp"

#include "ops/cuda/kernels/harness.hpp"
#include "ops/reference/cross_entropy.hpp"

namespace cohort::ops::check {
namespace {

struct Case {
  DType dtype;
  Count rows, vocabulary, stride;

  std::string name(const char* what) const {
    return text("cross_entropy %s R=%lld V=%lld stride=%lld %s", type_name(dtype), static_cast<long long>(rows),
                static_cast<long long>(vocabulary), static_cast<long long>(stride), what);
  }
};

// Some rows ignored, some with large logits, and padding that is NaN.
struct Problem {
  explicit Problem(const Case& c) : logits(random_values(c.dtype, c.rows * c.vocabulary, 1, 3.0)) {
    const CounterRandom random(2024, RandomPurpose::test, 8);
    for (Count r = 0; r < c.rows; ++r) {
      const double place = random.uniform(static_cast<std::uint64_t>(r));
      targets.push_back(r % 7 == 3 ? -1 : static_cast<std::int32_t>(place * static_cast<double>(c.vocabulary)));
      if (r % 5 != 2) continue;
      for (Count v = 0; v < c.vocabulary; ++v)
        logits[static_cast<std::size_t>(r * c.vocabulary + v)] += r % 2 == 0 ? 64.0 : -64.0;
    }
    if (c.rows > 1) targets.back() = static_cast<std::int32_t>(c.vocabulary - 1);
    logits = decode(c.dtype, encode(c.dtype, logits));
    padded.assign(static_cast<std::size_t>(c.rows * c.stride), NAN);
    for (Count r = 0; r < c.rows; ++r) {
      for (Count v = 0; v < c.vocabulary; ++v) {
        padded[static_cast<std::size_t>(r * c.stride + v)] = logits[static_cast<std::size_t>(r * c.vocabulary + v)];
      }
    }
  }
  Array logits, padded;
  Tokens targets;
};

constexpr double kLossBefore = 1.25;

void check_losses(const Case& c, const Problem& p, const char* form, const Buffer& loss, const Buffer& row_losses) {
  Array expected;
  Array allowed;
  double sum = kLossBefore;
  double allowed_sum = 1e-12;
  for (Count r = 0; r < c.rows; ++r) {
    const auto row = Input(p.logits).subspan(static_cast<std::size_t>(r * c.vocabulary), static_cast<std::size_t>(c.vocabulary));
    const Tokens one{p.targets[static_cast<std::size_t>(r)]};
    expected.push_back(reference::cross_entropy(row, one, c.vocabulary, 1.0).loss);
    sum += expected.back();
    // The logarithm of the sum of exponentials, and the rounding of the loss to fp32; log2(e) in fp32 is off by 2^-26 of the
    // logit.
    allowed.push_back(8.0 * kEps * (1.0 + std::abs(expected.back())) + 2.0 * kEps * std::abs(row[0]) / 8.0);
    allowed_sum += allowed.back();
  }
  compare(c.name(form) + " row losses", download(DType::f32, row_losses), expected, [&](std::size_t i) { return allowed[i]; });
  compare(c.name(form) + " loss", Array{download_double(loss)}, Array{sum}, [&](std::size_t) { return allowed_sum; });
}

void check(const Case& c, float scale, Count shift = 0) {
  const Problem p(c);
  const Buffer targets = upload(p.targets);
  const auto fresh_loss = [] { return upload(std::vector<double>{kLossBefore}); };

  const Buffer unchanged = upload(c.dtype, p.padded, shift);
  const auto before = unchanged.read();
  const Buffer loss = fresh_loss();
  const Buffer row_losses = poison(DType::f32, c.rows);
  cuda::cross_entropy_forward(nullptr, c.dtype, loss.as<double>(), row_losses.as<float>(), unchanged.data(),
                              targets.as<std::int32_t>(), c.rows, c.vocabulary, c.stride);
  check_losses(c, p, "forward", loss, row_losses);
  report(before == unchanged.read(), c.name("forward"), "leaves the logits");

  const Buffer logits = upload(c.dtype, p.padded, shift);
  const Buffer loss_too = fresh_loss();
  const Buffer row_losses_too = poison(DType::f32, c.rows);
  cuda::cross_entropy_forward_backward(nullptr, c.dtype, loss_too.as<double>(), row_losses_too.as<float>(), logits.data(),
                                       targets.as<std::int32_t>(), c.rows, c.vocabulary, c.stride, scale);
  check_losses(c, p, "backward", loss_too, row_losses_too);
  const auto gradient = reference::cross_entropy(p.logits, p.targets, c.vocabulary, static_cast<double>(scale)).dlogits;
  Array expected(p.padded.size(), 0.0);
  for (Count r = 0; r < c.rows; ++r) {
    for (Count v = 0; v < c.vocabulary; ++v) {
      expected[static_cast<std::size_t>(r * c.stride + v)] = gradient[static_cast<std::size_t>(r * c.vocabulary + v)];
    }
  }
  // Each exponential errs with its argument, of size up to 40, in fp32; at the target, 1 is taken off. Padding and ignored rows
  // must be 0 exactly.
  const auto target_of = [&](std::size_t i) { return p.targets[i / static_cast<std::size_t>(c.stride)]; };
  const auto column_of = [&](std::size_t i) { return static_cast<Count>(i % static_cast<std::size_t>(c.stride)); };
  const auto errs = stored(c.dtype, expected, [&](std::size_t i) {
    const double taken_off = column_of(i) == target_of(i) ? static_cast<double>(scale) : 0.0;
    return 40.0 * kEps * (std::abs(expected[i]) + taken_off) + 1e-30;
  });
  compare(c.name("gradient"), download(c.dtype, logits), expected,
          [&](std::size_t i) { return target_of(i) < 0 || column_of(i) >= c.vocabulary ? 0.0 : errs(i); });
}

void check_repeats(const Case& c) {
  const Problem p(c);
  const Buffer targets = upload(p.targets);
  repeats(c.name("forward and backward"), [&] {
    const Buffer logits = upload(c.dtype, p.padded);
    const Buffer loss = upload(std::vector<double>{kLossBefore});
    const Buffer row_losses = poison(DType::f32, c.rows);
    cuda::cross_entropy_forward_backward(nullptr, c.dtype, loss.as<double>(), row_losses.as<float>(), logits.data(),
                                         targets.as<std::int32_t>(), c.rows, c.vocabulary, c.stride, 0.5f);
    return Outputs{logits.read(), loss.read(), row_losses.read()};
  });
}

}  // namespace

void check_cross_entropy() {
  for (const DType dtype : kTypes) {
    check({dtype, 1, 1, 1}, 1.0f);
    check({dtype, 300, 65, 65}, 0.25f);
    check({dtype, 8, 65, 72}, 1.0f);
    check({dtype, 5, 65, 1024}, 1.0f);
    check({dtype, 33, 1000, 1000}, 2.0f);
    check({dtype, 8, 4099, 4104}, 1.0f);
    check({dtype, 9, 50257, 50304}, 1.0f);
    check({dtype, 4, 50257, 50257}, 1.0f);
    check({dtype, 4, 32000, 32000}, 1.0f, 1);
    check({dtype, 3, 128256, 128256}, 1.0f);
    check_repeats({dtype, 2000, 65, 65});
    check_repeats({dtype, 40, 50257, 50304});
  }
}

}  // namespace cohort::ops::check
