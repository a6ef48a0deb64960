// The proof that a grammar is unambiguous.
#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "data/story_grammar.hpp"

namespace cohort {
namespace {

constexpr std::size_t kLongestBeginning = 96;  // characters compared to tell two alternatives apart

}  // namespace

// The different beginnings of at most `length` characters of the texts of a sequence of symbols. A mention counts as any value:
// more texts than can occur, so the proof errs on the safe side.
std::vector<std::string> StoryGrammar::beginnings(const std::vector<Symbol>& symbols, std::size_t length) const {
  std::set<std::string> texts{""};
  for (const Symbol& symbol : symbols) {
    const bool all_full = std::all_of(texts.begin(), texts.end(), [&](const std::string& text) { return text.size() >= length; });
    if (all_full) break;
    std::set<std::string> longer;
    for (const std::string& text : texts) {
      if (text.size() >= length) {
        longer.insert(text);
        continue;
      }
      std::vector<std::string> next;
      if (symbol.kind == Kind::literal) {
        next.push_back(symbol.text);
      } else if (symbol.kind == Kind::mention) {
        for (std::size_t value = 0; value < characters_[symbol.index].values.size(); ++value)
          next.push_back(form_of(symbol, value));
      } else {
        for (const Alternative& alternative : rules_[symbol.index].alternatives) {
          for (std::string& beginning : beginnings(alternative.symbols, length - text.size()))
            next.push_back(std::move(beginning));
        }
      }
      for (const std::string& part : next) longer.insert((text + part).substr(0, length));
    }
    texts = std::move(longer);
  }
  return {texts.begin(), texts.end()};
}

std::string StoryGrammar::overlap(const Rule& rule) const {
  for (std::size_t a = 0; a < rule.alternatives.size(); ++a) {
    for (std::size_t b = a + 1; b < rule.alternatives.size(); ++b) {
      std::string found = "?";
      // Few characters tell most alternatives apart, and the number of beginnings grows fast with their length.
      for (std::size_t length = 3; !found.empty() && length <= kLongestBeginning; length *= 2) {
        found.clear();
        const auto right = beginnings(rule.alternatives[b].symbols, length);
        for (const std::string& x : beginnings(rule.alternatives[a].symbols, length)) {
          for (const std::string& y : right) {
            if (y.starts_with(x) || x.starts_with(y)) found = x.size() < y.size() ? x : y;
          }
        }
        if (!found.empty() && found.size() < length) break;  // a whole text of one begins a text of the other: more will not help
      }
      if (!found.empty())
        return fmt::format("rule '{}': alternatives {} and {} may both begin with '{}'", rule.name, a + 1, b + 1, found);
    }
  }
  return "";
}

// Follows every path from a rule; `mentioned` comes back with the characters that every path has mentioned.
std::string StoryGrammar::early_mention(std::size_t rule, std::vector<bool>& mentioned) const {
  std::vector<bool> common(mentioned.size(), true);
  for (const Alternative& alternative : rules_[rule].alternatives) {
    std::vector<bool> here = mentioned;
    for (const Symbol& symbol : alternative.symbols) {
      if (symbol.kind == Kind::rule) {
        if (std::string problem = early_mention(symbol.index, here); !problem.empty()) return problem;
      } else if (symbol.kind == Kind::mention) {
        if (symbol.form != 0 && !here[symbol.index]) {
          return fmt::format("rule '{}': '{}' may be mentioned as '{}' first", rules_[rule].name, characters_[symbol.index].name,
                             characters_[symbol.index].forms[symbol.form]);
        }
        here[symbol.index] = true;
      }
    }
    for (std::size_t i = 0; i < common.size(); ++i) common[i] = common[i] && here[i];
  }
  mentioned = std::move(common);
  return "";
}

std::string StoryGrammar::ambiguity() const {
  for (const Character& character : characters_) {
    for (std::size_t a = 0; a < character.values.size(); ++a) {
      for (std::size_t b = 0; b < character.values.size(); ++b) {
        if (a != b && character.values[b].forms[0].starts_with(character.values[a].forms[0])) {
          return fmt::format("character '{}': '{}' begins '{}'", character.name, character.values[a].forms[0],
                             character.values[b].forms[0]);
        }
      }
    }
  }
  for (const Rule& rule : rules_) {
    if (std::string problem = overlap(rule); !problem.empty()) return problem;
  }
  std::vector<bool> mentioned(characters_.size(), false);
  return early_mention(start_, mentioned);
}

std::size_t StoryGrammar::vocabulary_words() const {
  std::set<std::string> words;
  const auto add = [&](const std::string& text) {
    std::string word;
    for (const char c : text + " ") {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else if (!word.empty()) {
        words.insert(std::exchange(word, ""));
      }
    }
  };
  for (const Rule& rule : rules_) {
    for (const Alternative& alternative : rule.alternatives) {
      for (const Symbol& symbol : alternative.symbols) add(symbol.text);
    }
  }
  for (const Character& character : characters_) {
    for (const Value& value : character.values) {
      for (const std::string& form : value.forms) add(form);
    }
  }
  return words.size();
}

}  // namespace cohort
