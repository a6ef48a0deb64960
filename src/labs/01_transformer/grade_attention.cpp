// Where tokens see each other: attention, and the loss of the next token.
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab01_transformer.hpp>

#include "labs/01_transformer/lab01_cases.hpp"
#include "labs/01_transformer/lab01_grades.hpp"

namespace cohort::labs::lab01_transformer {
namespace {

struct HeadCase {
  std::size_t tokens, size;
  double deviation;  // of queries and keys
};

struct Head {
  HeadCase sizes;
  std::vector<float> q, k, v;
};

enum class Softmax { of_row, of_column, masked_afterwards };

// Attention by another idea of what is seen and how scores are scaled. sees(i, j): query i sees key j.
Doubles attention_by(const Head& head, double scale, bool (*sees)(std::size_t i, std::size_t j),
                     Softmax softmax = Softmax::of_row) {
  const std::size_t tokens = head.sizes.tokens, size = head.sizes.size;
  Doubles weights(tokens * tokens, -HUGE_VAL);
  for (std::size_t i = 0; i < tokens; ++i) {
    for (std::size_t j = 0; j < tokens; ++j) {
      if (!sees(i, j) && softmax != Softmax::masked_afterwards) continue;
      double score = 0.0;
      for (std::size_t d = 0; d < size; ++d) score += static_cast<double>(head.q[i * size + d]) * head.k[j * size + d];
      weights[i * tokens + j] = score * scale;
    }
  }
  for (std::size_t a = 0; a < tokens; ++a) {
    const auto weight = [&](std::size_t b) -> double& {
      return softmax == Softmax::of_column ? weights[b * tokens + a] : weights[a * tokens + b];
    };
    double largest = -HUGE_VAL, sum = 0.0;
    for (std::size_t b = 0; b < tokens; ++b) largest = std::max(largest, weight(b));
    for (std::size_t b = 0; b < tokens; ++b) sum += weight(b) = std::exp(weight(b) - largest);
    for (std::size_t b = 0; b < tokens; ++b) weight(b) /= sum;
  }
  Doubles out(tokens * size);
  for (std::size_t i = 0; i < tokens; ++i) {
    for (std::size_t j = 0; j < tokens; ++j) {
      if (!sees(i, j)) continue;
      for (std::size_t d = 0; d < size; ++d) out[i * size + d] += weights[i * tokens + j] * head.v[j * size + d];
    }
  }
  return out;
}

bool causal(std::size_t i, std::size_t j) { return j <= i; }
bool anything(std::size_t, std::size_t) { return true; }
bool past_alone(std::size_t i, std::size_t j) { return j < i; }
bool future(std::size_t i, std::size_t j) { return j >= i; }

std::vector<Mistake> mistakes_of_attention(const Head& head) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head.sizes.size));
  return {
      {attention_by(head, 1.0, causal), "the scores are not divided by the root of the head size"},
      {attention_by(head, scale * scale, causal), "the scores are divided by the head size, not by its root"},
      {attention_by(head, scale, anything), "tokens see those behind them, which they are to predict"},
      {attention_by(head, scale, future), "the mask is upside down: tokens see the future alone"},
      {attention_by(head, scale, past_alone), "tokens do not see themselves; the first one sees nothing at all"},
      {attention_by(head, scale, causal, Softmax::of_column),
       "the softmax runs over the queries of a key: it belongs to the keys of a query"},
      {attention_by(head, scale, causal, Softmax::masked_afterwards),
       "the mask comes after the softmax: the weights of what is seen no longer sum to 1"},
      {Doubles(head.q.size(), 0.0), "the first token sees itself alone, so its row is that of v"},
  };
}

// What a token gets must not depend on later ones, to the bit.
void check_causality(const Library& library, Head head) {
  auto* attention = library.function<decltype(causal_attention)>("causal_attention");
  const std::size_t size = head.sizes.size, last = head.sizes.tokens - 1;
  Guarded before = unwritten(head.q.size()), after = unwritten(head.q.size());
  attention(before.span(), head.q, head.k, head.v, static_cast<std::int64_t>(size));
  for (std::size_t d = 0; d < size; ++d) head.k[last * size + d] *= -2.0f, head.v[last * size + d] += 5.0f;
  attention(after.span(), head.q, head.k, head.v, static_cast<std::int64_t>(size));
  for (std::size_t i = 0; i < last * size; ++i) {
    if (before[i] != after[i])
      reject("row {} of out changes when key and value of token {} do: tokens see those behind them", i / size, last);
  }
}

}  // namespace

void grade_causal_attention(const Library& library, Grading& grading) {
  auto* attention = library.function<decltype(causal_attention)>("causal_attention");
  for (const HeadCase& sizes : std::array<HeadCase, 8>{
           {{3, 4, 1.0}, {1, 4, 1.0}, {2, 1, 1.0}, {5, 8, 1.0}, {17, 3, 1.0}, {33, 16, 1.0}, {0, 4, 1.0}, {9, 4, 50.0}}}) {
    grading.begin(
        fmt::format("{} tokens, head size {}{}", sizes.tokens, sizes.size, sizes.deviation > 1.0 ? ", scores of thousands" : ""));
    const std::size_t count = sizes.tokens * sizes.size;
    const Head head{sizes, normal_values(count, 41, sizes.deviation), normal_values(count, 42, sizes.deviation),
                    normal_values(count, 43)};
    Guarded out = unwritten(count);
    attention(out.span(), head.q, head.k, head.v, static_cast<std::int64_t>(sizes.size));
    // A score of thousands is rounded at 1e-4, and so is its weight.
    check_values("out", out, sizes.size, attention_by(head, 1.0 / std::sqrt(static_cast<double>(sizes.size)), causal),
                 sizes.deviation > 1.0 ? 1e-2 : 2e-5, mistakes_of_attention(head));
    if (sizes.tokens > 1) check_causality(library, head);
  }
}

namespace {

struct LossCase {
  std::size_t tokens, classes;
  double deviation;     // of logits
  std::size_t padding;  // every so many-th token is negative; 0: none
};

struct LossInput {
  std::vector<float> logits;
  std::vector<std::int32_t> tokens;
  std::size_t classes;
};

struct Loss {
  double sum = 0.0;
  std::size_t counting = 0;
  Doubles gradient;  // of the sum
};

// Row t predicts token t + shift.
Loss loss_of(const LossInput& in, std::size_t shift, bool counts_padding = false) {
  Loss loss{0.0, 0, Doubles(in.logits.size())};
  for (std::size_t t = 0; t + shift < in.tokens.size(); ++t) {
    const std::int32_t target = in.tokens[t + shift];
    if (target < 0) {
      loss.counting += counts_padding ? 1 : 0;
      continue;
    }
    const std::span<const float> row = std::span(in.logits).subspan(t * in.classes, in.classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (const float logit : row) sum += std::exp(logit - largest);
    const double log_sum = largest + std::log(sum);
    loss.sum += log_sum - row[static_cast<std::size_t>(target)];
    ++loss.counting;
    for (std::size_t c = 0; c < in.classes; ++c)
      loss.gradient[t * in.classes + c] = std::exp(row[c] - log_sum) - (c == static_cast<std::size_t>(target) ? 1.0 : 0.0);
  }
  return loss;
}

Doubles divided(Doubles values, std::size_t by) {
  for (double& value : values) value /= static_cast<double>(std::max<std::size_t>(by, 1));
  return values;
}

Doubles opposite(Doubles values) {
  for (double& value : values) value = -value;
  return values;
}

// softmax alone.
Doubles without_target(const LossInput& in, Doubles gradient, std::size_t counting) {
  for (std::size_t t = 0; t + 1 < in.tokens.size(); ++t) {
    if (in.tokens[t + 1] >= 0) gradient[t * in.classes + static_cast<std::size_t>(in.tokens[t + 1])] += 1.0;
  }
  return divided(std::move(gradient), counting);
}

double minus_logits(const LossInput& in) {
  double sum = 0.0, counting = 0.0;
  for (std::size_t t = 0; t + 1 < in.tokens.size(); ++t) {
    if (in.tokens[t + 1] < 0) continue;
    sum -= in.logits[t * in.classes + static_cast<std::size_t>(in.tokens[t + 1])];
    counting += 1.0;
  }
  return counting > 0.0 ? sum / counting : 0.0;
}

void check_loss(const Library& library, const LossInput& in, double tolerance) {
  Guarded dlogits = unwritten(in.logits.size());
  const double found = library.function<decltype(next_token_loss)>("next_token_loss")(in.logits, in.tokens, dlogits.span());
  const Loss right = loss_of(in, 1), unshifted = loss_of(in, 0), padded = loss_of(in, 1, true);
  const double sum = right.sum;
  const std::size_t counting = std::max<std::size_t>(right.counting, 1);
  const auto mean = [](double total, std::size_t count) { return total / static_cast<double>(std::max<std::size_t>(count, 1)); };
  check_number("the loss", found, mean(sum, counting), tolerance,
               {{mean(unshifted.sum, unshifted.counting),
                 "row t is compared with token t, which the model has seen: it predicts token t + 1"},
                {sum, "that is the sum over the tokens, not their mean"},
                {mean(sum, padded.counting), "the mean counts padding, too"},
                {mean(sum, in.tokens.size()), "the last row predicts nothing, but the mean counts it"},
                {mean(sum, counting) / std::log(2.0), "that is in bits: nats have the natural logarithm"},
                {minus_logits(in), "a logit is not yet the logarithm of a probability: log-sum-exp is missing"},
                {-mean(sum, counting), "the sign is wrong: it is minus the logarithm of the probability"}});
  check_values(
      "dlogits", dlogits, in.classes, divided(right.gradient, counting), tolerance,
      {{right.gradient, "the gradient of the sum: that of the mean is divided by the number of tokens that count"},
       {without_target(in, right.gradient, counting), "that is softmax alone: the target's logit has 1 less"},
       {opposite(divided(right.gradient, counting)), "the sign is wrong: the loss falls where this gradient says it rises"},
       {divided(unshifted.gradient, unshifted.counting), "row t has the gradient of predicting token t, not t + 1"}});
}

}  // namespace

void grade_next_token_loss(const Library& library, Grading& grading) {
  for (const LossCase& sizes : std::array<LossCase, 8>{{{4, 3, 1.0, 0},
                                                        {2, 5, 1.0, 0},
                                                        {5, 7, 2.0, 3},
                                                        {1, 4, 1.0, 0},
                                                        {33, 11, 3.0, 4},
                                                        {9, 50, 1.0, 0},
                                                        {6, 4, 3000.0, 0},
                                                        {5, 3, 1.0, 1}}}) {
    const auto [tokens, classes, deviation, padding] = sizes;
    grading.begin(fmt::format("{} tokens, vocabulary {}{}{}", tokens, classes, deviation > 100 ? ", logits of thousands" : "",
                              padding == 1  ? ", all of it padding"
                              : padding > 1 ? ", some of it padding"
                                            : ""));
    LossInput in{normal_values(tokens * classes, 51, deviation), {}, classes};
    for (std::size_t t = 0; t < tokens; ++t) {
      const bool pad = padding > 0 && t % padding == padding - 1;
      in.tokens.push_back(pad ? -1 : static_cast<std::int32_t>((t * 7 + 2) % classes));
    }
    // 1e-5: an fp32 sum of exponentials; of logits of thousands, their own rounding
    check_loss(library, in, deviation > 100 ? 1e-3 : 1e-5);
  }
}

}  // namespace cohort::labs::lab01_transformer
