// Writing a text of the grammar, and reading one back.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "data/story_grammar.hpp"

namespace cohort {
namespace {

constexpr std::size_t kNotMentioned = static_cast<std::size_t>(-1);  // a character that was not mentioned yet

std::string upper_first(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// The index that a uniform number chooses among weighted items.
template <class Items>
std::size_t choose(const Items& items, double uniform) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    sum += items[i].probability;
    if (uniform < sum) return i;
  }
  return items.size() - 1;
}

}  // namespace

std::string StoryGrammar::form_of(const Symbol& mention, std::size_t value) const {
  const std::string& form = characters_[mention.index].values[value].forms[mention.form];
  return mention.capitalised ? upper_first(form) : form;
}

struct StoryGrammar::Writer {
  const StoryGrammar& grammar;
  const std::function<double(std::uint64_t)>& uniform;
  std::vector<std::size_t> values;  // per character; kNotMentioned before its first mention
  std::uint64_t choices = 0;
  GrammarText result{};

  void write(const Symbol& symbol) {
    if (symbol.kind == Kind::literal) {
      result.text += symbol.text;
    } else if (symbol.kind == Kind::rule) {
      const auto& alternatives = grammar.rules_[symbol.index].alternatives;
      const Alternative& chosen = alternatives[choose(alternatives, uniform(choices++))];
      result.log_probability += std::log(chosen.probability);
      for (const Symbol& part : chosen.symbols) write(part);
    } else {
      const auto& candidates = grammar.characters_[symbol.index].values;
      std::size_t& value = values[symbol.index];
      if (value == kNotMentioned) {
        value = choose(candidates, uniform(choices++));
        result.log_probability += std::log(candidates[value].probability);
      }
      result.text += grammar.form_of(symbol, value);
    }
  }
};

GrammarText StoryGrammar::generate(const std::function<double(std::uint64_t)>& uniform) const {
  Writer writer{*this, uniform, std::vector<std::size_t>(characters_.size(), kNotMentioned)};
  writer.write({Kind::rule, "", start_});
  return writer.result;
}

struct StoryGrammar::Reader {
  const StoryGrammar& grammar;
  std::string_view text;
  std::vector<std::size_t> values;
  std::size_t position = 0;
  double log_probability = 0;

  bool read_literal(std::string_view literal) {
    if (!text.substr(position).starts_with(literal)) return false;
    position += literal.size();
    return true;
  }

  bool read_mention(const Symbol& symbol) {
    std::size_t& value = values[symbol.index];
    if (value != kNotMentioned) return read_literal(grammar.form_of(symbol, value));
    const auto& candidates = grammar.characters_[symbol.index].values;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!read_literal(grammar.form_of(symbol, i))) continue;
      value = i;
      log_probability += std::log(candidates[i].probability);
      return true;
    }
    return false;
  }

  // The first alternative that fits is the only one: no text of another begins like it.
  bool read_rule(const Rule& rule) {
    const Reader before = *this;
    for (const Alternative& alternative : rule.alternatives) {
      if (std::all_of(alternative.symbols.begin(), alternative.symbols.end(),
                      [&](const Symbol& symbol) { return read(symbol); })) {
        log_probability += std::log(alternative.probability);
        return true;
      }
      position = before.position;
      values = before.values;
      log_probability = before.log_probability;
    }
    return false;
  }

  bool read(const Symbol& symbol) {
    if (symbol.kind == Kind::literal) return read_literal(symbol.text);
    return symbol.kind == Kind::mention ? read_mention(symbol) : read_rule(grammar.rules_[symbol.index]);
  }
};

std::optional<double> StoryGrammar::log_probability(std::string_view text) const {
  Reader reader{*this, text, std::vector<std::size_t>(characters_.size(), kNotMentioned)};
  if (!reader.read({Kind::rule, "", start_}) || reader.position != text.size()) return std::nullopt;
  return reader.log_probability;
}

}  // namespace cohort
