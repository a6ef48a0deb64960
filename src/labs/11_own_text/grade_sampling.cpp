// 11.7: where the interval from 0 to 1 is cut, by drawing with many numbers of it; and what a run draws with it.
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/11_own_text/grade_text.hpp"
#include "train/sampling.hpp"

namespace cohort::labs::lab11_own_text {
namespace {

using Sample = int(std::span<const float>, const SamplingRule&, double);
using Logits = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of logarithms of these probabilities, moved by a constant that softmax takes out.
Logits logits_of(std::initializer_list<double> probabilities) {
  Logits logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 3.0));
  return logits;
}

// The usual mistakes, as variants of what is right.
struct Variant {
  bool cut_before_temperature = false;
  bool not_normalized = false;
  bool without_last = false;     // the token with which top_p is reached is left out
  bool top_p_of_all = false;     // top_p on the probabilities before top_k
  bool in_order_of_ids = false;  // the interval is divided by the tokens' numbers
  bool without_temperature = false;
};

int drawn(const Logits& logits, const SamplingRule& rule, double uniform, const Variant& variant) {
  std::vector<int> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto logit = [&](int token) { return static_cast<double>(logits[static_cast<std::size_t>(token)]); };
  std::stable_sort(tokens.begin(), tokens.end(), [&](int a, int b) { return logit(a) > logit(b); });
  if (rule.temperature == 0.0) return tokens.front();
  const double top = logit(tokens.front());
  const auto weight = [&](int token, double temperature) { return std::exp((logit(token) - top) / temperature); };
  const auto sum_of = [&](double temperature) {
    return std::accumulate(tokens.begin(), tokens.end(), 0.0,
                           [&](double sum, int token) { return sum + weight(token, temperature); });
  };
  const double drawn_at = variant.without_temperature ? 1.0 : rule.temperature;
  const double cut_at = variant.cut_before_temperature ? 1.0 : drawn_at;
  double all = sum_of(cut_at);
  if (rule.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(rule.top_k)));
  if (!variant.top_p_of_all) all = sum_of(cut_at);
  const double whole = sum_of(drawn_at);
  if (rule.top_p < 1.0) {
    std::size_t kept = 0;
    double sum = 0.0;
    while (kept < tokens.size() && (kept == 0 || sum < rule.top_p * all)) sum += weight(tokens[kept++], cut_at);
    if (variant.without_last && kept > 1) --kept;
    tokens.resize(kept);
  }
  if (variant.in_order_of_ids) std::sort(tokens.begin(), tokens.end());
  double left = uniform * (variant.not_normalized ? whole : sum_of(drawn_at));
  for (const int token : tokens) {
    left -= weight(token, drawn_at);
    if (left < 0.0) return token;
  }
  return tokens.back();
}

constexpr int kDraws = 200;
double number(int draw) { return (draw + 0.37) / kDraws; }

bool draws_alike(Sample* sample, const Logits& logits, const SamplingRule& rule, const Variant& variant) {
  for (int draw = 0; draw < kDraws; ++draw) {
    if (sample(logits, rule, number(draw)) != drawn(logits, rule, number(draw), variant)) return false;
  }
  return true;
}

void check_sampling(Sample* sample, const Logits& logits, const SamplingRule& rule) {
  for (int draw = 0; draw < kDraws; ++draw) {
    const int found = sample(logits, rule, number(draw)), right = drawn(logits, rule, number(draw), {});
    if (found < 0 || found >= static_cast<int>(logits.size()))
      reject("uniform = {:.5f} draws token {}, but there are {}", number(draw), found, logits.size());
    if (logits[static_cast<std::size_t>(found)] == -kInfinity)
      reject("uniform = {:.5f} draws token {}, whose logit is -infinity", number(draw), found);
    if (found == right) continue;
    const std::string what = fmt::format("uniform = {:.5f} draws token {}, not {}", number(draw), found, right);
    const std::initializer_list<std::pair<Variant, const char*>> known{
        {{.cut_before_temperature = true}, "top_p cuts the probabilities before the temperature has changed them"},
        {{.not_normalized = true}, "what is left is not normalized: numbers above its probability fall behind the last token"},
        {{.without_last = true}, "the token with which top_p is reached belongs to those that stay"},
        {{.top_p_of_all = true}, "top_p looks at the probabilities before top_k has cut them"},
        {{.in_order_of_ids = true}, "tokens share the interval in the order of their numbers, not the likeliest first"},
        {{.without_temperature = true}, "the temperature has no effect"}};
    for (const auto& [variant, words] : known) {
      if (drawn(logits, rule, number(draw), variant) == found && draws_alike(sample, logits, rule, variant))
        reject("{}: {}", what, words);
    }
    reject("{}", what);
  }
}

void check_refusal(Sample* sample, const Logits& logits, const SamplingRule& rule, const char* what) {
  int token = 0;
  try {
    token = sample(logits, rule, 0.5);
  } catch (const std::invalid_argument&) {
    return;
  }
  reject("{}, but token {} is drawn: the text goes on as if nothing had happened", what, token);
}

}  // namespace

void grade_sampling(const Library& library, Grading& grading) {
  auto* sample = library.function<Sample>("sample_top_p");
  const Logits five = logits_of({0.1, 0.4, 0.05, 0.25, 0.2}), equal(6, 1.5f), large{700.0f, 705.0f, 650.0f, 704.0f};
  Logits many, masked = five;
  for (int i = 0; i < 50; ++i) many.push_back(3.0f * static_cast<float>(std::sin(i * i)));
  masked[1] = masked[4] = -kInfinity;
  const Logits nearly_all{0.0f, -kInfinity, -kInfinity};
  const std::vector<std::pair<const char*, const Logits*>> cases{{"probabilities 0.1 0.4 0.05 0.25 0.2", &five},
                                                                 {"6 equal logits", &equal},
                                                                 {"logits about 700", &large},
                                                                 {"50 logits", &many},
                                                                 {"-infinity among 5 logits", &masked},
                                                                 {"one finite logit of 3", &nearly_all}};
  for (const auto& [words, logits] : cases) {
    for (const SamplingRule& rule : {SamplingRule{1.0, 0, 1.0},
                                     {1.0, 0, 0.62},
                                     {0.5, 0, 1.0},
                                     {2.0, 0, 0.62},
                                     {0.5, 0, 0.72},
                                     {1.0, 2, 1.0},
                                     {1.0, 3, 0.78},
                                     {0.7, 4, 0.9},
                                     {1.0, 0, 0.01},
                                     {0.0, 0, 1.0},
                                     {0.0, 3, 0.5},
                                     {1.0, 100, 1.0}}) {
      grading.begin(fmt::format("{}, temperature {}, top_k {}, top_p {}", words, rule.temperature, rule.top_k, rule.top_p));
      check_sampling(sample, *logits, rule);
    }
  }
  for (const SamplingRule& rule : {SamplingRule{1.0, 0, 0.9}, SamplingRule{0.0, 0, 1.0}, SamplingRule{1.0, 1, 1.0}}) {
    grading.begin(
        fmt::format("logits that are no numbers, temperature {}, top_k {}, top_p {}", rule.temperature, rule.top_k, rule.top_p));
    check_refusal(sample, {1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f}, rule, "a logit is NaN");
    check_refusal(sample, {std::numeric_limits<float>::quiet_NaN(), 1.0f, 2.0f}, rule, "the first logit is NaN");
    check_refusal(sample, {1.0f, kInfinity}, rule, "a logit is infinite");
    check_refusal(sample, {-kInfinity, -kInfinity}, rule, "all logits are -infinity");
  }
}

void use_sampling(const Library& library) {
  use_own_sampling([library, sample = library.function<Sample>("sample_top_p")](std::span<const float> logits,
                                                                                const Sampling& sampling, double uniform) {
    int token = 0;
    try {
      token = sample(logits, {sampling.temperature, static_cast<int>(sampling.top_k), sampling.top_p}, uniform);
    } catch (const lab::NotWritten&) {  // on the rank that draws: it alone may know
      fail(ExitCode::usage, "sample_top_p is not written yet");
    }
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size())
      fail(ExitCode::usage, "sample_top_p draws token {} of {}: `cohort lab check 11.7`", token, logits.size());
    return token;
  });
}

}  // namespace cohort::labs::lab11_own_text
