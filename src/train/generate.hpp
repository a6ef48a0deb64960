// Text from a trained model, one token at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/predictor.hpp"

namespace cohort {

/// Draws a token from the logits [V], none of which is NaN or +infinity: the likeliest for temperature 0, else from
/// softmax(logits / temperature) over the `top_k` likeliest (0 = all). `uniform` in [0, 1) is the random number to use.
std::int32_t draw_token(std::span<const float> logits, double temperature, Count top_k, double uniform);

struct GenerateOptions {
  Count vocabulary = 0;  // tokens that have a text: those of the tokenizer. Rows of the model beyond them are never drawn
  Count tokens = 200;
  double temperature = 0.8;
  Count top_k = 0;
  std::uint64_t seed = 0;  // keys the draws; the same seed gives the same text
  Count context = 0;       // T: the model sees at most the last T tokens
  ops::Kernels kernels = ops::Kernels::tuned;
};

/// The model has put out logits that are NaN or +infinity. `unit` is the first unit on this rank whose output is not finite; ""
/// if all are, as where another rank has it.
struct LogitsNotFinite : Error {
  LogitsNotFinite(Count token, std::string first_unit);
  std::string unit;
};

/// Continues `prompt` (at least one token) and returns the new tokens. `on_token`, if any, is told of each as it comes. `hooks`
/// are those of the strategy that keeps the parameters. Throws LogitsNotFinite, on all ranks alike.
// Collective over: the ranks that keep them, which all give the same arguments
std::vector<std::int32_t> generate(Predictor& model, const std::vector<std::int32_t>& prompt, const GenerateOptions& options,
                                   Hooks& hooks, const std::function<void(std::int32_t)>& on_token = {});

}  // namespace cohort
