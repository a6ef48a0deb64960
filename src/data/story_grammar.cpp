#include "data/story_grammar.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"

namespace cohort {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::string lower_first(std::string text) {
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

template <class Items>
void normalise(Items& items) {
  double sum = 0;
  for (const auto& item : items) sum += item.probability;
  for (auto& item : items) item.probability /= sum;
}

template <class Named>
std::size_t index_of(const std::vector<Named>& items, std::string_view name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Named& item) { return item.name == name; });
  return found == items.end() ? kNone : static_cast<std::size_t>(found - items.begin());
}

}  // namespace

StoryGrammar::StoryGrammar(std::string_view notation) {
  read(notation);
  for (auto& character : characters_) normalise(character.values);
  for (auto& rule : rules_) normalise(rule.alternatives);
  start_ = index_of(rules_, "text");
  COHORT_CHECK(start_ != kNone, "story grammar: there is no rule 'text'");
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) expect(rule);

  expected_characters_ = rules_[start_].characters;
  expected_nats_ = rules_[start_].nats;
  for (std::size_t character = 0; character < characters_.size(); ++character) {
    double entropy = 0;
    for (const Value& value : characters_[character].values) entropy -= value.probability * std::log(value.probability);
    expected_nats_ += (1.0 - rules_[start_].never[character]) * entropy;
  }
}

// Two passes: alternatives may name rules that come later.
void StoryGrammar::read(std::string_view notation) {
  struct Pending {
    std::size_t rule;
    double weight;
    std::string text;
    int line;
  };
  std::vector<Pending> pending;
  bool in_rule = false;
  std::istringstream lines{std::string(notation)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string head;
    words >> head;
    if (head == "character" || head == "rule") {
      std::string name;
      words >> name;
      in_rule = head == "rule";
      COHORT_CHECK(!name.empty() && index_of(rules_, name) == kNone && index_of(characters_, name) == kNone,
                   "story grammar, line {}: '{}' is missing or defined twice", number, name);
      if (in_rule) {
        rules_.emplace_back().name = name;
      } else {
        characters_.emplace_back().name = name;
        for (std::string form; words >> form;) characters_.back().forms.push_back(form);
      }
      continue;
    }
    const double weight = std::strtod(head.c_str(), nullptr);
    COHORT_CHECK(weight > 0 && line.size() > head.size() && (in_rule ? !rules_.empty() : !characters_.empty()),
                 "story grammar, line {}: want 'weight text' below a rule or character", number);
    const std::string text = trimmed(line.substr(head.size()));
    if (in_rule) {
      pending.push_back({rules_.size() - 1, weight, text, number});
      continue;
    }
    Value value{weight, {}};
    std::istringstream forms(text);
    for (std::string form; std::getline(forms, form, '|');) value.forms.push_back(trimmed(form));
    const bool complete =
        value.forms.size() == characters_.back().forms.size() &&
        std::none_of(value.forms.begin(), value.forms.end(), [](const std::string& form) { return form.empty(); });
    COHORT_CHECK(complete, "story grammar, line {}: {} wants {} forms", number, characters_.back().name,
                 characters_.back().forms.size());
    characters_.back().values.push_back(std::move(value));
  }
  for (const Pending& item : pending) rules_[item.rule].alternatives.push_back({item.weight, symbols_of(item.text, item.line)});
  for (const Rule& rule : rules_) COHORT_CHECK(!rule.alternatives.empty(), "story grammar: the rule '{}' is empty", rule.name);
  for (const Character& character : characters_) {
    COHORT_CHECK(!character.values.empty(), "story grammar: the character '{}' has no values", character.name);
  }
}

StoryGrammar::Symbol StoryGrammar::symbol_of(std::string_view reference, int line) const {
  const std::string name(reference.substr(1, reference.size() - 2));
  if (reference[0] == '<') {
    const std::size_t rule = index_of(rules_, name);
    COHORT_CHECK(rule != kNone, "story grammar, line {}: there is no rule '{}'", line, name);
    return {Kind::rule, "", rule};
  }
  const std::size_t dot = name.find('.');
  const std::size_t character = index_of(characters_, name.substr(0, dot));
  COHORT_CHECK(character != kNone, "story grammar, line {}: there is no character '{}'", line, name);
  if (dot == std::string::npos) return {Kind::mention, "", character};
  const std::string form = name.substr(dot + 1);
  const auto& forms = characters_[character].forms;
  const auto found = std::find(forms.begin(), forms.end(), lower_first(form));
  COHORT_CHECK(found != forms.end(), "story grammar, line {}: '{}' has no form '{}'", line, name, form);
  return {Kind::mention, "", character, static_cast<std::size_t>(found - forms.begin()), form != lower_first(form)};
}

std::vector<StoryGrammar::Symbol> StoryGrammar::symbols_of(std::string_view text, int line) const {
  std::vector<Symbol> symbols;
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) symbols.push_back({Kind::literal, literal});
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<' || text[i] == '{') {
      const std::size_t end = text.find(text[i] == '<' ? '>' : '}', i);
      COHORT_CHECK(end != std::string_view::npos, "story grammar, line {}: '{}' is not closed", line, text[i]);
      end_literal();
      symbols.push_back(symbol_of(text.substr(i, end - i + 1), line));
      i = end;
    } else if (text.substr(i, 2) == "\\n") {
      literal += '\n';
      ++i;
    } else {
      literal += text[i];
    }
  }
  end_literal();
  return symbols;
}

void StoryGrammar::expect(std::size_t index) {
  Rule& rule = rules_[index];
  if (rule.done) return;
  COHORT_CHECK(!rule.open, "story grammar: the rule '{}' contains itself", rule.name);
  rule.open = true;
  rule.never.assign(characters_.size(), 0.0);
  for (const Alternative& alternative : rule.alternatives) expect(rule, alternative);
  rule.open = false;
  rule.done = true;
}

void StoryGrammar::expect(Rule& rule, const Alternative& alternative) {
  double nats = -std::log(alternative.probability);
  double characters = 0;
  std::vector<double> never(characters_.size(), 1.0);
  for (const Symbol& symbol : alternative.symbols) {
    if (symbol.kind == Kind::literal) {
      characters += static_cast<double>(symbol.text.size());
    } else if (symbol.kind == Kind::mention) {
      for (const Value& value : characters_[symbol.index].values) {
        characters += value.probability * static_cast<double>(value.forms[symbol.form].size());
      }
      never[symbol.index] = 0;
    } else {
      expect(symbol.index);
      const Rule& child = rules_[symbol.index];
      nats += child.nats;
      characters += child.characters;
      for (std::size_t i = 0; i < never.size(); ++i) never[i] *= child.never[i];
    }
  }
  rule.nats += alternative.probability * nats;
  rule.characters += alternative.probability * characters;
  for (std::size_t i = 0; i < never.size(); ++i) rule.never[i] += alternative.probability * never[i];
}

}  // namespace cohort
