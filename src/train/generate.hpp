// Texts from a trained model, a token of each at a time.
//
// While a text fits into the model's context of T tokens, a new token costs one row of a pass, thanks to the KV cache
// (train/cached_passes.hpp). Beyond, the model sees the last T tokens. Their positions, and so all keys and values, change with
// each token, which then costs a pass over all T.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/predictor.hpp"
#include "train/sampling.hpp"

namespace cohort {

struct GenerateOptions {
  Count vocabulary = 0;  // tokens that have a text: those of the tokenizer. Rows of the model beyond them are never drawn
  Count tokens = 200;    // of each text, at most
  Sampling sampling = {};
  std::uint64_t seed = 0;  // keys the draws: those of a text are a function of the seed and its number among the prompt's texts
  Count texts = 1;         // of each prompt
  Count at_once = 16;      // texts under way at most; for each there is a cache
  Count context = 0;       // T: the model sees at most the last T tokens
  ops::Kernels kernels = ops::Kernels::tuned;
};

/// The model has put out logits that are NaN or +infinity. `unit` is the first unit on this rank whose output is not finite; ""
/// if all are, as where another rank has it.
struct LogitsNotFinite : Error {
  /// `token` counts from 1; `of` says whose it is: "the text".
  LogitsNotFinite(Count token, const std::string& of, const std::string& first_unit);
  std::string what_is;  // "the logits of token 3 of the text are not finite"
  std::string unit;
};

/// Is told of each token as it comes: text t of prompt p is number p * texts + t. Returns whether the text goes on.
using TokenSink = std::function<bool(std::size_t number, std::int32_t token)>;

/// Continues each prompt (at least one token), options.texts times, and returns the new tokens of each text, by number. A text
/// is the same whatever prompts are beside its own (with tensor parallelism over more than two ranks, up to the rounding of
/// their sums). `hooks` are those of the strategy that keeps the parameters. Throws LogitsNotFinite, on all ranks alike.
// Collective over: the ranks that keep them, which all give the same arguments
std::vector<std::vector<std::int32_t>> generate(Predictor& model, std::span<const std::vector<std::int32_t>> prompts,
                                                const GenerateOptions& options, Hooks& hooks, const TokenSink& sink = {});

}  // namespace cohort
