#include "train/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "observe/flight_recorder.hpp"
#include "train/input_buffer.hpp"
#include "train/nonfinite.hpp"

namespace cohort {

namespace {

// A logit of -infinity is a token that is never drawn; softmax makes no number of the others.
bool can_be_drawn_from(std::span<const float> logits) {
  return std::ranges::none_of(logits, [](float logit) { return std::isnan(logit) || (std::isinf(logit) && logit > 0.0f); }) &&
         std::ranges::any_of(logits, [](float logit) { return std::isfinite(logit); });
}

}  // namespace

LogitsNotFinite::LogitsNotFinite(Count token, std::string first_unit)
    : Error(ExitCode::training, fmt::format("the logits of token {} of the text are not finite{}", token,
                                            first_unit.empty() ? "" : "; the first non-finite output is that of " + first_unit)),
      unit(std::move(first_unit)) {}

std::int32_t draw_token(std::span<const float> logits, double temperature, Count top_k, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  // Equal logits in the order of their ids, so that the draw does not depend on the sort.
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  if (temperature == 0.0) return order.front();
  if (top_k > 0 && top_k < static_cast<Count>(order.size())) order.resize(static_cast<std::size_t>(top_k));
  std::vector<double> weights;
  for (std::int32_t token : order)
    weights.push_back(std::exp((static_cast<double>(logit(token)) - logit(order.front())) / temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0.0) return order[i];
  }
  return order.back();  // the sum was rounded
}

std::vector<std::int32_t> generate(Predictor& model, const std::vector<std::int32_t>& prompt, const GenerateOptions& options,
                                   Hooks& hooks, const std::function<void(std::int32_t)>& on_token) {
  COHORT_CHECK(!prompt.empty() && options.context > 0, "generate: a prompt of {} tokens, context {}", prompt.size(),
               options.context);
  COHORT_CHECK(options.vocabulary > 0 && options.vocabulary <= model.classes(), "generate: {} tokens of {} rows",
               options.vocabulary, model.classes());
  const ModelStorage& storage = model.storage();
  Arena activations("generate", storage.device);
  const StepContext context{.exec = {.device = storage.device, .kernels = options.kernels},
                            .dtype = storage.compute,
                            .activations = &activations,
                            .heartbeat = FlightRecorder::heartbeat_of_process};
  InputBuffer buffer(storage.device, model.classes());
  const Tensor logits = Tensor::zeros("generate.logits", {1, model.classes()});
  const CounterRandom random(options.seed, RandomPurpose::sample);
  std::vector<std::int32_t> tokens = prompt;
  for (Count i = 0; i < options.tokens; ++i) {
    const auto seen = std::min(tokens.size(), static_cast<std::size_t>(options.context));
    ModelInput input;
    input.samples = 1;
    input.inputs = std::span(tokens).last(seen);
    model.last_logits(context, buffer.put(input), logits, hooks);
    const std::span<const float> with_text = logits.span<float>().first(static_cast<std::size_t>(options.vocabulary));
    if (!can_be_drawn_from(with_text)) {
      FirstNotFinite search;
      StepContext inspected = context;
      inspected.inspect = search.inspector();
      model.last_logits(inspected, buffer.put(input), logits, hooks);
      throw LogitsNotFinite(i + 1, search.unit());
    }
    const std::int32_t next =
        draw_token(with_text, options.temperature, options.top_k, random.uniform(static_cast<std::uint64_t>(i)));
    tokens.push_back(next);
    if (on_token) on_token(next);
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace cohort
