#include "config/trace_range.hpp"

#include <charconv>
#include <string_view>
#include <system_error>

#include "base/error.hpp"

namespace cohort {
namespace {

// Of a large model a step has some thousands of spans, of which each takes some hundred bytes on its rank until the last step.
constexpr Count kMostTracedSteps = 1000;

std::optional<Count> step_in(std::string_view text) {
  Count step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return step;
}

}  // namespace

std::optional<TraceRange> parse_trace_range(const std::string& text, const RunConfig& config) {
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kKey = "steps=";
  const std::string_view steps = std::string_view(text).starts_with(kKey) ? std::string_view(text).substr(kKey.size()) : "";
  const std::size_t dash = steps.find('-');
  const std::optional<Count> first = step_in(steps.substr(0, dash));
  const std::optional<Count> last = dash == std::string_view::npos ? first : step_in(steps.substr(dash + 1));
  if (!first || !last) fail(ExitCode::usage, "--trace {}: not of the form steps=FIRST-LAST, as in --trace steps=10-12", text);
  if (*first < 1) fail(ExitCode::usage, "--trace {}: steps count from 1", text);
  if (*last < *first) fail(ExitCode::usage, "--trace {}: step {} comes before step {}", text, *last, *first);
  if (*last > config.train.steps)
    fail(ExitCode::usage, "--trace {}: the run ends with step {} (train.steps)", text, config.train.steps);
  if (*last - *first >= kMostTracedSteps)
    fail(ExitCode::usage, "--trace {}: at most {} steps, since spans stay in memory until the last one", text, kMostTracedSteps);
  return TraceRange{*first, *last};
}

}  // namespace cohort
