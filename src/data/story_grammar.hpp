// A probabilistic grammar of texts whose probability is known exactly.
//
// A grammar has rules and characters. A *rule* has weighted alternatives, each a sequence of literal text, other rules and
// mentions of characters; no rule contains itself. A *character* (a person, an animal, a place, a thing) has weighted values,
// each a list of forms (name, pronoun, ...). Its value is drawn at its first mention in a text and kept to the end of the text,
// so that names and pronouns agree. Values are independent of everything else.
//
// Notation, one line each (blank lines and lines that start with # are skipped):
//   character hero name he him his        the forms; the first is the one that may be mentioned first
//     3 Lily | she | her | her            weight, then one text for each form
//   rule meet                             alternatives follow
//     2 {hero} met <stranger>.            weight, then the text; {hero} is the first form, {hero.he} another, {hero.He}
//                                         that one capitalised; <rule> is another rule; \n is a line break
// The rule `text` is the start.
//
// Exact entropy. Every text has one derivation only (see ambiguity()), so the probability of a text is the product of the
// probabilities of its choices, and its expectation follows rule by rule, without sampling:
//   nats(rule)       = sum over alternatives p (-log p + sum of nats(rule) of the rules in it)
//   characters(rule) = sum over alternatives p (literal characters + characters of the rules in it
//                                               + mean lengths of the forms in it)
//   nats(text)       = nats(rule text) + sum over characters of P(mentioned at all) x entropy of its values
// A value is drawn once, hence the probability of being mentioned at all, which is again a product over the rules; the lengths
// add up over all mentions, because values do not depend on what is chosen elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// A text and the natural logarithm of its probability.
struct GrammarText {
  std::string text;
  double log_probability;
};

class StoryGrammar {
 public:
  /// Throws Error(internal) with the line for a mistake in the notation, an unknown name or a rule that contains itself.
  explicit StoryGrammar(std::string_view notation);

  /// `uniform(i)` gives the i-th of independent numbers in [0, 1); choice i of the text uses it.
  GrammarText generate(const std::function<double(std::uint64_t)>& uniform) const;

  /// The log-probability of a text, found by parsing it; nothing if the grammar cannot produce it. Linear time: at each choice
  /// the text decides, since alternatives are prefix-free.
  std::optional<double> log_probability(std::string_view text) const;

  /// Exact expectations over one text (nats = -log probability).
  double expected_nats() const { return expected_nats_; }
  double expected_characters() const { return expected_characters_; }

  /// Proof that every text, and every concatenation of texts, has one derivation only: "" if so, else what is wrong. Checked:
  /// of any two alternatives of a rule, no text of one is a prefix of a text of the other (compared up to a bounded number of
  /// characters; equality up to there counts as wrong); of any two values of a character, neither first form is a prefix of the
  /// other; and on every path the first mention of a character is by its first form. Then reading from left to right decides
  /// every choice.
  std::string ambiguity() const;

  /// Number of different words (maximal runs of letters) in all rules and values.
  std::size_t vocabulary_words() const;

 private:
  enum class Kind : std::uint8_t { literal, rule, mention };
  struct Symbol {
    Kind kind;
    std::string text;          // literal
    std::size_t index = 0;     // of the rule or character
    std::size_t form = 0;      // mention
    bool capitalised = false;  // mention
  };
  struct Alternative {
    double probability;
    std::vector<Symbol> symbols;
  };
  struct Rule {
    std::string name;
    std::vector<Alternative> alternatives;
    double nats = 0;
    double characters = 0;
    std::vector<double> never;  // per character: probability that no mention of it is in a text of this rule
    bool done = false;
    bool open = false;
  };
  struct Value {
    double probability;
    std::vector<std::string> forms;
  };
  struct Character {
    std::string name;
    std::vector<std::string> forms;
    std::vector<Value> values;
  };
  struct Writer;
  struct Reader;

  void read(std::string_view notation);
  Symbol symbol_of(std::string_view reference, int line) const;
  std::vector<Symbol> symbols_of(std::string_view text, int line) const;
  void expect(std::size_t rule);
  void expect(Rule& rule, const Alternative& alternative);
  std::string form_of(const Symbol& mention, std::size_t value) const;
  std::vector<std::string> beginnings(const std::vector<Symbol>& symbols, std::size_t length) const;
  std::string overlap(const Rule& rule) const;
  std::string early_mention(std::size_t rule, std::vector<bool>& mentioned) const;

  std::vector<Rule> rules_;
  std::vector<Character> characters_;
  std::size_t start_ = 0;
  double expected_nats_ = 0;
  double expected_characters_ = 0;
};

}  // namespace cohort
