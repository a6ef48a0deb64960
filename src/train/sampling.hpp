// The next token of a text, drawn from what a model says of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/units.hpp"

namespace cohort {

struct Sampling {
  double temperature = 0.8;  // 0 = always the likeliest
  Count top_k = 0;           // only the k likeliest; 0 = all
  double top_p = 1.0;        // only the likeliest that together have this probability, of those that top_k left; 1 = all
};

/// Whether softmax makes probabilities of the logits: none is NaN or +infinity, and one is finite. A logit of -infinity is a
/// token that is never drawn.
bool can_be_drawn_from(std::span<const float> logits);

/// Draws a token from softmax(logits / temperature), as far as top_k and top_p leave it; the logits are such as above. `uniform`
/// in [0, 1) is the random number to use: the likeliest token has the first part of the interval, and so on.
std::int32_t draw_token(std::span<const float> logits, const Sampling& sampling, double uniform);

using OwnSampling = std::function<std::int32_t(std::span<const float> logits, const Sampling& sampling, double uniform)>;
/// From now on draw_token() asks this function. Before any token is drawn: not thread-safe. For the course, where a learner has
/// written it.
void use_own_sampling(OwnSampling own);

}  // namespace cohort
