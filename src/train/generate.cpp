#include "train/generate.hpp"

#include <algorithm>
#include <optional>

#include "base/random.hpp"
#include "train/cached_passes.hpp"

namespace cohort {

namespace {

struct Text {
  std::size_t prompt = 0;
  Count index = 0;                   // among the texts of the prompt
  std::vector<std::int32_t> tokens;  // the prompt's and the new ones
  Count made = 0;                    // new ones
  Count slot = 0;
  bool done = false;
};

Count longest_of(std::span<const std::vector<std::int32_t>> prompts) {
  std::size_t longest = 0;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    COHORT_CHECK(!prompt.empty(), "generate: a prompt of no tokens");
    longest = std::max(longest, prompt.size());
  }
  return static_cast<Count>(longest);
}

// Texts take a slot of the cache each, as slots become free, and go on side by side.
class Generation {
 public:
  Generation(Predictor& model, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options, Hooks& hooks,
             const TokenSink& sink)
      : prompts_(prompts),
        options_(options),
        sink_(sink),
        classes_(model.classes()),
        texts_(prompts.size() * static_cast<std::size_t>(options.texts)),
        slots_(std::min(options.at_once, static_cast<Count>(texts_.size()))),
        passes_(model, slots_, std::min(options.context, longest_of(prompts) + options.tokens), options.kernels, hooks) {
    for (Count slot = slots_; slot > 0; --slot) free_.push_back(slot - 1);
  }

  std::vector<std::vector<std::int32_t>> run() {
    std::size_t next = 0;
    while (next < texts_.size() || !under_way_.empty()) {
      for (; next < texts_.size() && !free_.empty(); ++next) start(next);
      go_on();
    }
    std::vector<std::vector<std::int32_t>> made;
    for (const Text& text : texts_)
      made.emplace_back(text.tokens.end() - static_cast<std::ptrdiff_t>(text.made), text.tokens.end());
    return made;
  }

 private:
  void start(std::size_t number) {
    Text& text = texts_[number];
    text.prompt = number / static_cast<std::size_t>(options_.texts);
    text.index = static_cast<Count>(number % static_cast<std::size_t>(options_.texts));
    text.tokens = prompts_[text.prompt];
    text.slot = free_.back();
    free_.pop_back();
    under_way_.push_back(&text);
    draw(text, logits_of_prompt(text));
  }

  // The prompt's pass is made for the first of its texts; the others take what it left, if it is still there.
  std::span<const float> logits_of_prompt(const Text& text) {
    if (kept_ && kept_->prompt == text.prompt) {
      if (kept_->slot != text.slot) passes_.copy_slot(text.slot, kept_->slot);
      return kept_->logits;
    }
    const std::span<const float> logits = run_whole(text);
    if (options_.texts > 1) kept_ = {text.prompt, text.slot, {logits.begin(), logits.end()}};
    return logits;
  }

  std::span<const float> run_whole(const Text& text) {
    if (kept_ && kept_->slot == text.slot) kept_.reset();
    const auto seen = std::min(text.tokens.size(), static_cast<std::size_t>(options_.context));
    return passes_.run_prompt(text.slot, std::span(text.tokens).last(seen));
  }

  // One more token of each text that is under way.
  void go_on() {
    retire();
    std::vector<CachedPasses::Row> rows;
    std::vector<Text*> of_rows;
    for (Text* text : under_way_) {
      const auto size = static_cast<Count>(text->tokens.size());
      if (size > options_.context) {
        draw(*text, run_whole(*text));
      } else {
        rows.push_back({text->slot, size - 1, text->tokens.back()});
        of_rows.push_back(text);
      }
    }
    if (rows.empty()) return;
    const std::span<const float> logits = passes_.run_tokens(rows);
    for (std::size_t r = 0; r < rows.size(); ++r)
      draw(*of_rows[r], logits.subspan(r * static_cast<std::size_t>(classes_), static_cast<std::size_t>(classes_)));
  }

  void retire() {
    for (const Text* text : under_way_) {
      if (text->done) free_.push_back(text->slot);
    }
    std::erase_if(under_way_, [](const Text* text) { return text->done; });
  }

  void draw(Text& text, std::span<const float> logits) {
    const std::span<const float> with_text = logits.first(static_cast<std::size_t>(options_.vocabulary));
    if (!can_be_drawn_from(with_text)) {
      const std::string of = prompts_.size() > 1 ? fmt::format("the text of prompt {}", text.prompt + 1) : "the text";
      throw LogitsNotFinite(text.made + 1, of, passes_.first_unit_not_finite());
    }
    const CounterRandom random(options_.seed, RandomPurpose::sample, static_cast<std::uint32_t>(text.index));
    const std::int32_t token = draw_token(with_text, options_.sampling, random.uniform(static_cast<std::uint64_t>(text.made)));
    text.tokens.push_back(token);
    ++text.made;
    const bool wanted = !sink_ || sink_(static_cast<std::size_t>(&text - texts_.data()), token);
    text.done = !wanted || text.made == options_.tokens;
  }

  // What the pass over a prompt left.
  struct Kept {
    std::size_t prompt;
    Count slot;
    std::vector<float> logits;
  };

  std::span<const std::vector<std::int32_t>> prompts_;
  const GenerateOptions& options_;
  const TokenSink& sink_;
  Count classes_;
  std::vector<Text> texts_;
  Count slots_;
  CachedPasses passes_;
  std::vector<Count> free_;
  std::vector<Text*> under_way_;
  std::optional<Kept> kept_;
};

}  // namespace

LogitsNotFinite::LogitsNotFinite(Count token, const std::string& of, const std::string& first_unit)
    : Error(ExitCode::training, fmt::format("the logits of token {} of {} are not finite{}", token, of,
                                            first_unit.empty() ? "" : "; the first non-finite output is that of " + first_unit)),
      what_is(fmt::format("the logits of token {} of {} are not finite", token, of)),
      unit(first_unit) {}

std::vector<std::vector<std::int32_t>> generate(Predictor& model, std::span<const std::vector<std::int32_t>> prompts,
                                                const GenerateOptions& options, Hooks& hooks, const TokenSink& sink) {
  COHORT_CHECK(options.context > 0 && options.texts > 0 && options.at_once > 0, "generate: context {}, {} texts, {} at once",
               options.context, options.texts, options.at_once);
  COHORT_CHECK(options.vocabulary > 0 && options.vocabulary <= model.classes(), "generate: {} tokens of {} rows",
               options.vocabulary, model.classes());
  if (prompts.empty() || options.tokens == 0)
    return std::vector<std::vector<std::int32_t>>(prompts.size() * static_cast<std::size_t>(options.texts));
  return Generation(model, prompts, options, hooks, sink).run();
}

}  // namespace cohort
