#include "commands/eval/measured.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/text.hpp"

namespace cohort {
namespace {

std::string share_in_percent(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

// How many tokens a guess is among, on average. A classifier has no such thing.
std::optional<double> perplexity_of(const Measured& measured, double loss) {
  if (!measured.is_text || measured.evaluation.targets == 0) return std::nullopt;
  const double perplexity = std::exp(loss);
  return std::isfinite(perplexity) ? std::optional(perplexity) : std::nullopt;
}
std::optional<double> perplexity_of(const Measured& measured) { return perplexity_of(measured, measured.evaluation.loss); }

// " (perplexity 3.431, 1.7788 bits per byte)": what of it there is, or "".
std::string beside_the_loss(std::optional<double> perplexity, std::optional<double> bits_per_byte,
                            std::optional<double> accuracy) {
  std::vector<std::string> figures;
  if (perplexity) figures.push_back(fmt::format("perplexity {:.3f}", *perplexity));
  if (bits_per_byte) figures.push_back(fmt::format("{:.4f} bits per byte", *bits_per_byte));
  if (accuracy) figures.push_back("accuracy " + share_in_percent(*accuracy));
  return figures.empty() ? "" : fmt::format(" ({})", join(figures));
}

std::string choices_in_words(const ChoiceScores& choices) {
  return fmt::format("{} of {} right, {} if normalised by length", share_in_percent(choices.accuracy),
                     counted(choices.questions, "question"), share_in_percent(choices.accuracy_normalised));
}

// A figure that some checkpoints have.
struct Column {
  std::string title;
  std::function<std::string(const Measured&)> text;  // "" if the checkpoint has none
};

std::vector<Column> figure_columns() {
  const auto number = [](std::optional<double> value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "";
  };
  const auto choice = [](const Measured& m, double ChoiceScores::*share) {
    return m.evaluation.choices ? share_in_percent(*m.evaluation.choices.*share) : "";
  };
  return {{"loss", [=](const Measured& m) { return m.evaluation.targets > 0 ? number(m.evaluation.loss, "{:.6f}") : ""; }},
          {"perplexity", [=](const Measured& m) { return number(perplexity_of(m), "{:.3f}"); }},
          {"bits per byte", [=](const Measured& m) { return number(m.evaluation.bits_per_byte, "{:.4f}"); }},
          {"accuracy", [=](const Measured& m) { return m.evaluation.accuracy ? share_in_percent(*m.evaluation.accuracy) : ""; }},
          {"targets", [=](const Measured& m) { return m.evaluation.targets > 0 ? std::to_string(m.evaluation.targets) : ""; }},
          {"choices", [=](const Measured& m) { return choice(m, &ChoiceScores::accuracy); }},
          {"by length", [=](const Measured& m) { return choice(m, &ChoiceScores::accuracy_normalised); }},
          {"questions",
           [=](const Measured& m) { return m.evaluation.choices ? std::to_string(m.evaluation.choices->questions) : ""; }}};
}

}  // namespace

std::string as_text(const Measured& measured) {
  const Evaluation& evaluation = measured.evaluation;
  if (evaluation.choices)
    return fmt::format("step {}: {}, in {}\n", measured.step, choices_in_words(*evaluation.choices), measured.source);
  std::string sources;
  for (const SourceEvaluation& source : evaluation.sources) {
    sources += fmt::format("  {}: {:.6f} nats{}\n", source.name, source.loss,
                           beside_the_loss(perplexity_of(measured, source.loss), source.bits_per_byte, std::nullopt));
  }
  return fmt::format("step {}: validation loss {:.6f} nats{} over {} of {} of {}\n{}", measured.step, evaluation.loss,
                     beside_the_loss(perplexity_of(measured), evaluation.bits_per_byte, evaluation.accuracy),
                     counted(evaluation.targets, "target"), counted(evaluation.samples, "sample"), measured.source, sources);
}

std::string as_text(const std::vector<Measured>& several) {
  std::vector<Column> columns = figure_columns();
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::all_of(several, [&](const Measured& measured) { return column.text(measured).empty(); });
  });
  std::vector<std::string> header{"checkpoint", "of", "step"};
  for (const Column& column : columns) header.push_back(column.title);
  Table table(std::move(header));
  for (const Measured& measured : several) {
    std::vector<std::string> row{measured.checkpoint, measured.source, std::to_string(measured.step)};
    for (const Column& column : columns) {
      const std::string text = column.text(measured);
      row.push_back(text.empty() ? "-" : text);
    }
    table.add(std::move(row));
  }
  return table.str(2);
}

nlohmann::ordered_json as_json(const Measured& measured) {
  nlohmann::ordered_json json{{"step", measured.step}};
  json.update(figures_of(measured.evaluation));
  if (const auto perplexity = perplexity_of(measured)) json["perplexity"] = *perplexity;
  for (const SourceEvaluation& source : measured.evaluation.sources) {
    if (const auto perplexity = perplexity_of(measured, source.loss)) json["perplexity_of"][source.name] = *perplexity;
  }
  if (measured.evaluation.targets > 0) {
    json["targets"] = measured.evaluation.targets;
    json["samples"] = measured.evaluation.samples;
  }
  if (measured.evaluation.choices) json["questions"] = measured.evaluation.choices->questions;
  json["of"] = measured.source;
  return json;
}

}  // namespace cohort
