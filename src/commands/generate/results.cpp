#include "commands/generate/results.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/console.hpp"

namespace cohort {

Results::Results(const Tokenizer& tokenizer, std::vector<std::string> prompts, ResultOptions options)
    : prompts_(std::move(prompts)), options_(std::move(options)) {
  for (std::size_t number = 0; number < prompts_.size() * options_.texts; ++number)
    texts_.push_back({TextStream(tokenizer, options_.stops), {}});
}

bool Results::put(std::size_t number, std::int32_t token) {
  Text& text = texts_[number];
  text.tokens.push_back(token);
  std::string piece = text.stream.put(token);
  text.done = text.stream.stopped() || text.tokens.size() == options_.tokens;
  if (text.done) piece += text.stream.finish();
  if (!options_.prints) return !text.done;
  if (options_.form == ResultForm::stream) {
    show_piece(text, piece);
  } else {
    for (; shown_ < texts_.size() && texts_[shown_].done; ++shown_) show_whole(shown_);
  }
  return !text.done;
}

// The prompt comes with the first token: of a model that gives none nothing is printed.
void Results::show_piece(const Text& text, const std::string& piece) const {
  const bool first = text.tokens.size() == 1 && options_.with_prompt;
  if (first || !piece.empty() || text.done) {
    fmt::print("{}{}{}", first ? prompts_.front() : "", piece, text.done ? "\n" : "");
    flush_console();
  }
}

void Results::show_whole(std::size_t number) const {
  const Text& text = texts_[number];
  const std::string& prompt = prompts_[number / options_.texts];
  const std::size_t of_prompt = number % options_.texts + 1;
  if (options_.form == ResultForm::json) {
    nlohmann::ordered_json line{{"prompt_number", number / options_.texts + 1}, {"sample", of_prompt}};
    if (options_.with_prompt) line["prompt"] = prompt;
    line["text"] = text.stream.text();
    line["tokens"] = text.tokens;
    line["finish"] = text.stream.stopped() ? "stop" : "length";
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    const std::string sample = options_.texts > 1 ? fmt::format(", sample {}", of_prompt) : "";
    fmt::print("== prompt {}{}\n{}{}\n", number / options_.texts + 1, sample, options_.with_prompt ? prompt : "",
               text.stream.text());
  }
  flush_console();
}

}  // namespace cohort
