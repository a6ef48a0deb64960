// The stories: the grammar is unambiguous, texts give back the probability they were made with, and the exact expectations agree
// with means over many stories.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/synth_stories.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

struct Mean {
  double value = 0;
  double standard_error = 0;
};

Mean mean_of(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares) / static_cast<double>(values.size())};
}

TEST(StoryGrammar, ExpectationsOfASmallGrammarByHand) {
  // Texts: "ab" (1/2), "c" + X (1/4) or "cc" without X (1/4), X = "x" or "yy", each 1/2, twice the same.
  const StoryGrammar grammar(
      "character X name\n 1 x\n 1 yy\n"
      "rule text\n 2 ab\n 2 c<rest>\n"
      "rule rest\n 1 {X}{X}\n 1 c\n");
  EXPECT_EQ(grammar.ambiguity(), "");
  // H = log 2 (ab or not) + 1/2 log 2 (rest) + 1/4 log 2 (X, drawn once though mentioned twice).
  EXPECT_NEAR(grammar.expected_nats(), 1.75 * std::log(2.0), 1e-12);
  // 1/2 * 2 + 1/4 * (1 + 2 * 1.5) + 1/4 * 2
  EXPECT_NEAR(grammar.expected_characters(), 2.5, 1e-12);
  EXPECT_NEAR(grammar.log_probability("cyyyy").value(), std::log(0.125), 1e-12);
  EXPECT_FALSE(grammar.log_probability("cxyy").has_value());  // one X per text
  EXPECT_FALSE(grammar.log_probability("cx").has_value());
  EXPECT_FALSE(grammar.log_probability("abb").has_value());
}

TEST(StoryGrammar, AmbiguityIsFound) {
  const auto problem = [](const char* notation) { return StoryGrammar(notation).ambiguity(); };
  EXPECT_EQ(problem("rule text\n 1 a<x>\nrule x\n 1 b\n 1 c\n"), "");
  EXPECT_NE(problem("rule text\n 1 a<x>\nrule x\n 1 b\n 1 b\n"), "");                              // equal words
  EXPECT_NE(problem("rule text\n 1 a<x>b\nrule x\n 1 b\n 1 bb\n"), "");                            // one begins the other
  EXPECT_NE(problem("rule text\n 1 <x>\n 1 <y>\nrule x\n 1 a\n 1 b\nrule y\n 1 bc\n 1 d\n"), "");  // through other rules
  EXPECT_NE(problem("character h name he\n 1 Tom | he\n 1 Ann | she\nrule text\n 1 {h.he} slept\n"),
            "");  // a pronoun first: two girls are one
  EXPECT_NE(problem("character h name\n 1 Ann\n 1 Anna\nrule text\n 1 {h}a\n"), "");
  EXPECT_NE(problem("character h name he\n 1 Tom | he\nrule text\n 1 <x>{h.he}\nrule x\n 1 {h}\n 1 a\n"),
            "");  // named on one path only
}

TEST(StoryGrammar, MistakesInTheNotationNameTheLine) {
  const auto error_of = [](const char* notation) -> std::string {
    try {
      StoryGrammar grammar(notation);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of("rule text\n 1 <nowhere>\n").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("character h a b\n 1 x\n").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("rule text\n word\n").find("line 2"), std::string::npos);
  EXPECT_NE(error_of("rule text\n 1 a<text>\n").find("contains itself"), std::string::npos);
  EXPECT_NE(error_of("rule other\n 1 a\n").find("no rule 'text'"), std::string::npos);
}

TEST(Stories, TheGrammarIsUnambiguous) { EXPECT_EQ(story_grammar().ambiguity(), ""); }

TEST(Stories, AFewHundredWords) {
  EXPECT_GE(story_grammar().vocabulary_words(), 300u);
  EXPECT_LE(story_grammar().vocabulary_words(), 1000u);
}

TEST(Stories, TextsGiveBackTheirProbability) {
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const GrammarText story = make_story(7, i);
    const auto parsed = story_grammar().log_probability(story.text);
    ASSERT_TRUE(parsed.has_value()) << story.text;
    // The same terms in another order: rounding of a few dozen additions.
    ASSERT_NEAR(*parsed, story.log_probability, 1e-9) << story.text;
    ASSERT_TRUE(story.text.ends_with("\n\n"));
    for (const char c : story.text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << story.text;
  }
}

TEST(Stories, ExactExpectationsAgreeWithTheMeans) {
  std::vector<double> nats;
  std::vector<double> characters;
  std::vector<double> balance;  // nats - entropy * characters has expectation 0: the ratio is tested without its bias
  for (std::uint64_t i = 0; i < 40000; ++i) {
    const GrammarText story = make_story(11, i);
    nats.push_back(-story.log_probability);
    characters.push_back(static_cast<double>(story.text.size()));
    balance.push_back(nats.back() - story_entropy_nats_per_character() * characters.back());
  }
  // Four standard errors: by chance 1 in 16,000, and the seed is fixed.
  const Mean mean_nats = mean_of(nats);
  EXPECT_NEAR(mean_nats.value, story_grammar().expected_nats(), 4 * mean_nats.standard_error);
  const Mean mean_characters = mean_of(characters);
  EXPECT_NEAR(mean_characters.value, story_grammar().expected_characters(), 4 * mean_characters.standard_error);
  const Mean mean_balance = mean_of(balance);
  EXPECT_NEAR(mean_balance.value, 0.0, 4 * mean_balance.standard_error);
  // And the test is sharp: a tenth of a nat or half a character would show.
  EXPECT_LT(4 * mean_nats.standard_error, 0.11);
  EXPECT_LT(4 * mean_characters.standard_error, 1.5);
}

TEST(Stories, DependOnSeedAndIndexOnly) {
  EXPECT_EQ(make_story(3, 5).text, make_story(3, 5).text);
  std::set<std::string> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t i = 0; i < 20; ++i) different.insert(make_story(seed, i).text);
  }
  EXPECT_EQ(different.size(), 400u);
  EXPECT_NE(make_story(1, 0).text, make_story(1, std::uint64_t{1} << 32).text);
}

TEST(Corpus, SizesFactsAndChanges) {
  const TemporaryFolder folder;
  const std::string path = folder / "stories.txt";
  const CorpusFacts by_count = write_story_corpus(path, 1, 50, 0);
  EXPECT_EQ(by_count.stories, 50);
  const std::string text = read_file(path);
  EXPECT_EQ(static_cast<Bytes>(text.size()), by_count.bytes);
  EXPECT_TRUE(text.starts_with(make_story(1, 0).text + make_story(1, 1).text));
  EXPECT_NEAR(by_count.empirical_nats_per_character, by_count.entropy_nats_per_character, 0.05);

  const auto facts = read_corpus_facts(path);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->entropy_nats_per_character, by_count.entropy_nats_per_character);
  EXPECT_EQ(facts->empirical_nats_per_character, by_count.empirical_nats_per_character);
  write_file_atomically(path, text + "x");
  EXPECT_FALSE(read_corpus_facts(path).has_value());
  std::string changed = text;
  changed[10] = '#';
  write_file_atomically(path, changed);
  EXPECT_FALSE(read_corpus_facts(path).has_value());

  const CorpusFacts by_bytes = write_story_corpus(path, 1, 0, 10000);
  EXPECT_GE(by_bytes.bytes, 10000);
  EXPECT_LT(by_bytes.bytes, 12000);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_THROW(write_story_corpus(path, 1, 0, 0), Error);
  EXPECT_THROW(write_story_corpus(path, 1, 5, 5), Error);
  EXPECT_THROW(write_story_corpus(folder / "no/such/folder", 1, 5, 0), Error);
  write_file_atomically(path + ".json", "{\"format\": \"cohort-story-corpus\"}");
  EXPECT_THROW(read_corpus_facts(path), Error);
}

}  // namespace
}  // namespace cohort
