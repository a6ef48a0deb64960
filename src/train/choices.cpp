#include "train/choices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "observe/flight_recorder.hpp"
#include "ops/cross_entropy.hpp"
#include "train/input_buffer.hpp"

namespace cohort {
namespace {

using nlohmann::json;

struct Line {
  std::string where;  // "FILE:7"
  const json& object;

  [[noreturn]] void refuse(const std::string& what) const { fail(ExitCode::data, "{}: {}", where, what); }
};

bool is_space(char letter) { return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r'; }

std::string text_field(const Line& line, const json& field, const std::string& name) {
  if (!field.is_string() || field.get_ref<const std::string&>().empty()) line.refuse(name + " is not a text, or empty");
  return field.get<std::string>();
}

std::string context_of(const Line& line) {
  for (const char* name : {"ctx", "context"}) {
    if (line.object.contains(name)) return text_field(line, line.object[name], fmt::format("\"{}\"", name));
  }
  line.refuse("no field \"ctx\" (or \"context\")");
}

std::vector<std::string> endings_of(const Line& line) {
  const json endings = line.object.value("endings", json());
  if (!endings.is_array() || endings.size() < 2) line.refuse("\"endings\" is not a list of at least two texts");
  std::vector<std::string> texts;
  for (const json& ending : endings) texts.push_back(text_field(line, ending, fmt::format("ending {}", texts.size())));
  return texts;
}

Count label_of(const Line& line, std::size_t endings) {
  const json label = line.object.value("label", json());
  std::optional<Count> number;
  if (label.is_number_integer()) number = label.get<Count>();
  if (label.is_string()) {
    const auto& digits = label.get_ref<const std::string&>();
    Count value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) number = value;
  }
  if (!number || *number < 0 || *number >= static_cast<Count>(endings))
    line.refuse(fmt::format("\"label\" is {}, but must be the number of an ending, 0 to {}", label.dump(), endings - 1));
  return *number;
}

ChoiceSequence sequence_of(const Line& line, std::vector<std::int32_t> tokens, const std::vector<std::int32_t>& ending,
                           Count context) {
  const auto length = static_cast<std::size_t>(context);
  if (ending.size() > length)
    line.refuse(fmt::format("an ending of {} tokens, but the model's context has {}", ending.size(), context));
  tokens.insert(tokens.end(), ending.begin(), ending.end());
  if (tokens.size() > length + 1) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(length + 1));
  ChoiceSequence sequence{{tokens.begin(), tokens.end() - 1}, {tokens.begin() + 1, tokens.end()}};
  std::fill(sequence.targets.begin(), sequence.targets.end() - static_cast<std::ptrdiff_t>(ending.size()), ops::kIgnoredTarget);
  return sequence;
}

ChoiceQuestion question_of(const Line& line, Count number, const Tokenizer& tokenizer, Count context) {
  if (!line.object.is_object()) line.refuse("not a JSON object");
  const std::string text = context_of(line);
  const std::vector<std::string> endings = endings_of(line);
  ChoiceQuestion question{.line = number, .label = label_of(line, endings.size())};
  const std::vector<std::int32_t> before = tokenizer.encode(text, line.where);
  for (const std::string& ending : endings) {
    const bool spaced = is_space(text.back()) || is_space(ending.front());
    const std::vector<std::int32_t> tokens = tokenizer.encode(spaced ? ending : " " + ending, line.where);
    question.endings.push_back(sequence_of(line, before, tokens, context));
    question.ending_bytes.push_back(static_cast<Count>(ending.size()));
  }
  return question;
}

// The ending with the highest score.
Count best_of(const std::vector<double>& scores) { return std::max_element(scores.begin(), scores.end()) - scores.begin(); }

ChoiceScores scores_of(const std::vector<ChoiceQuestion>& questions, std::span<const double> losses, const std::string& path) {
  ChoiceScores scores{.questions = static_cast<Count>(questions.size())};
  std::size_t next = 0;
  for (const ChoiceQuestion& question : questions) {
    std::vector<double> summed, normalised;
    for (const Count bytes : question.ending_bytes) {
      const double loss = losses[next++];
      if (!std::isfinite(loss)) {
        throw SharedError(ExitCode::training, fmt::format("{}:{}: the log-likelihood of ending {} is not a number", path,
                                                          question.line, summed.size()));
      }
      summed.push_back(-loss);
      normalised.push_back(-loss / static_cast<double>(bytes));
    }
    scores.accuracy += best_of(summed) == question.label ? 1.0 : 0.0;
    scores.accuracy_normalised += best_of(normalised) == question.label ? 1.0 : 0.0;
  }
  scores.accuracy /= static_cast<double>(scores.questions);
  scores.accuracy_normalised /= static_cast<double>(scores.questions);
  return scores;
}

}  // namespace

std::vector<ChoiceQuestion> read_choices(const std::string& text, const std::string& path, const Tokenizer& tokenizer,
                                         Count context, Count limit) {
  std::vector<ChoiceQuestion> questions;
  Count number = 0;
  for (const std::string& words : split(text, '\n')) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    if (std::ranges::all_of(words, is_space)) continue;
    constexpr int kDepth = 64;
    const json object = parse_strict_json(words, where + ": the line", kDepth, ExitCode::data);
    questions.push_back(question_of({where, object}, number, tokenizer, context));
    if (static_cast<Count>(questions.size()) == limit) break;
  }
  if (questions.empty()) fail(ExitCode::data, "{}: no questions", path);
  return questions;
}

std::vector<ChoiceQuestion> open_choices(Communicator& world, const std::string& path, const Tokenizer& tokenizer, Count context,
                                         Count limit) {
  std::string text;
  fail_together(world, "reading the questions", [&] {
    if (world.rank() == 0) text = read_file(path, "multiple-choice questions");
  });
  text = broadcast_text(world, text, 0);
  std::vector<ChoiceQuestion> questions;
  fail_together(world, "reading the questions", [&] { questions = read_choices(text, path, tokenizer, context, limit); });
  return questions;
}

ChoiceScores score_choices(const EvaluationContext& setup, Predictor& model, const std::vector<ChoiceQuestion>& questions,
                           const std::string& path, Communicator& group) {
  std::vector<const ChoiceSequence*> sequences;
  for (const ChoiceQuestion& question : questions) {
    for (const ChoiceSequence& ending : question.endings) sequences.push_back(&ending);
  }
  const auto count = static_cast<Count>(sequences.size());
  const ModelStorage& storage = model.storage();
  const Tensor sums = Tensor::zeros("choices.losses", {count}, DType::f64, storage.device);
  // Samples are whole here, also where training cuts them: each rank has other endings.
  StepContext context{.exec = setup.exec,
                      .dtype = storage.compute,
                      .activations = &setup.activations,
                      .heartbeat = FlightRecorder::heartbeat_of_process};
  InputBuffer buffer(storage.device, model.classes());
  for (Count first = 0; first < count; first += group.size()) {  // as many passes on every rank
    const Count own = first + group.rank();
    if (own >= count) {
      model.idle_loss(setup.hooks);
      continue;
    }
    const ChoiceSequence& sequence = *sequences[static_cast<std::size_t>(own)];
    context.loss_sum = sums.slice(own, own + 1);
    ModelInput input;
    input.samples = 1;
    input.inputs = sequence.inputs;
    input.targets = sequence.targets;
    model.loss(context, buffer.put(input), setup.hooks);
  }
  const Tensor on_host = sums.to_host();
  const std::span<double> losses = on_host.span<double>();
  if (setup.stages != nullptr) all_reduce(*setup.stages, losses, ReduceOp::sum);
  all_reduce(group, losses, ReduceOp::sum);
  return scores_of(questions, losses, path);
}

}  // namespace cohort
