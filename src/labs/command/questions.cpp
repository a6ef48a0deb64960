#include "labs/command/questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace cohort::labs {
namespace {

constexpr std::string_view kAnswer = "Answer: ";

// Lines of one paragraph become one line; an empty line stays between two.
void append_line(std::string& text, const std::string& line) {
  if (line.empty()) {
    if (!text.empty() && !text.ends_with('\n')) text += "\n\n";
  } else {
    if (!text.empty() && !text.ends_with('\n')) text += ' ';
    text += line;
  }
}

std::string trimmed(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

void print_text(const std::string& text) {
  for (const std::string& paragraph : split(text, '\n')) {
    for (const std::string& line : wrapped(paragraph, 94)) fmt::print("      {}\n", line);
  }
}

void print(const AskedQuestion& question, bool with_answer, bool answered) {
  fmt::print("{}{}{}\n", question.name, question.numeric != nullptr ? "  (a number)" : "", answered ? "  answered" : "");
  print_text(question.text);
  if (with_answer) print_text(std::string(kAnswer) + question.answer);
}

nlohmann::ordered_json as_json(const AskedQuestion& question) {
  nlohmann::ordered_json json{{"question", question.name}, {"text", question.text}, {"answer", question.answer}};
  if (question.numeric != nullptr) {
    json["value"] = question.numeric->value();
    json["tolerance"] = question.numeric->tolerance;
  }
  return json;
}

int judge_answer(const AskedQuestion& question, double given, const Lab& lab, const Workplace& workplace) {
  if (question.numeric == nullptr)
    fail(ExitCode::usage, "{} asks for no number: think, then `cohort lab ask {} --answer`", question.name, question.name);
  const double right = question.numeric->value();
  if (!(std::fabs(given - right) <= question.numeric->tolerance * std::fabs(right))) {
    const bool factor = given > 0.0 && right > 0.0;
    const double times = factor ? std::max(given / right, right / given) : 0.0;
    fmt::print("{:g} is {}{}\n", given, given > right ? "too much" : "too little",
               times >= 1.5 ? ", by a factor of 1.5 or more"
               : factor     ? ", but close"
                            : "");
    return static_cast<int>(ExitCode::unequal);
  }
  fmt::print("right\n");
  print_text(question.answer);
  if (workplace.has_started(lab)) workplace.answered(lab, question.name);
  return 0;
}

}  // namespace

std::vector<AskedQuestion> questions_of(const Lab& lab) {
  const std::filesystem::path file = labs_folder() / lab.folder / "questions.md";
  std::vector<AskedQuestion> questions;
  bool in_answer = false;
  for (const std::string& line : split(read_file(file, "questions"), '\n')) {
    if (line.starts_with("## ")) {
      questions.emplace_back().name = line.substr(3);
      in_answer = false;
    } else if (!questions.empty()) {
      in_answer = in_answer || line.starts_with(kAnswer);
      AskedQuestion& question = questions.back();
      append_line(in_answer ? question.answer : question.text, line.starts_with(kAnswer) ? line.substr(kAnswer.size()) : line);
    }
  }
  for (AskedQuestion& question : questions) {
    question.text = trimmed(question.text);
    question.answer = trimmed(question.answer);
    COHORT_CHECK(!question.text.empty() && !question.answer.empty(), "{}: {} lacks its text or its answer", file.string(),
                 question.name);
  }
  for (const Question& numeric : lab.questions) {
    const std::string name = fmt::format("{}.{}", lab.number, numeric.name);
    const auto found =
        std::find_if(questions.begin(), questions.end(), [&](const AskedQuestion& one) { return one.name == name; });
    COHORT_CHECK(found != questions.end(), "{} has no question {}", file.string(), name);
    found->numeric = &numeric;
  }
  return questions;
}

int ask(const AskOptions& options) {
  const Lab& lab = lab_numbered(options.question.substr(0, options.question.find('.')));
  const Workplace workplace(options.folder);
  std::vector<AskedQuestion> questions = questions_of(lab);
  if (options.question.find('.') != std::string::npos) {
    std::erase_if(questions, [&](const AskedQuestion& one) { return one.name != options.question; });
    if (questions.empty())
      fail(ExitCode::usage, "there is no question {}: `cohort lab ask {}` lists those of lab {}", options.question, lab.number,
           lab.number);
    if (options.value) return judge_answer(questions.front(), *options.value, lab, workplace);
  } else if (options.value) {
    fail(ExitCode::usage, "which question is that the answer to? As in `cohort lab ask {}.q1 {:g}`", lab.number, *options.value);
  }
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const AskedQuestion& question : questions) list.push_back(as_json(question));
    fmt::print("{}\n", list.dump(2));
    return 0;
  }
  for (const AskedQuestion& question : questions) print(question, options.answer, workplace.has_answered(lab, question.name));
  return 0;
}

}  // namespace cohort::labs
