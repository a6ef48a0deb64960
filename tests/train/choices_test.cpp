// Multiple-choice questions as files have them: what is read, and what is refused with its line.
#include "train/choices.hpp"

#include <gtest/gtest.h>

#include "data/tokenizer_kind.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

const std::string kGood = R"({"ctx": "ab", "endings": ["c", "dd"], "label": 1})";

std::unique_ptr<Tokenizer> letters() {
  const std::vector<std::string_view> texts{"abcdefgh \n"};
  const std::vector<std::string> names{"letters"};
  return learn_tokenizer("char", texts, names);
}

std::vector<ChoiceQuestion> read(const std::string& text, Count context = 8, Count limit = 0) {
  return read_choices(text, "q.jsonl", *letters(), context, limit);
}

// Ids: newline 0, space 1, a 2, b 3, c 4, d 5.
TEST(Choices, TheEndingAloneCounts) {
  const auto questions = read("\n" + kGood + "\n\n" + R"({"context": "a ", "endings": ["b", " c"], "label": "0", "id": 7})");
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0].line, 2);
  EXPECT_EQ(questions[0].label, 1);
  EXPECT_EQ(questions[0].endings[0].inputs, (std::vector<std::int32_t>{2, 3, 1}));
  EXPECT_EQ(questions[0].endings[0].targets, (std::vector<std::int32_t>{-1, 1, 4})) << "a space is put before it";
  EXPECT_EQ(questions[0].endings[1].targets, (std::vector<std::int32_t>{-1, 1, 5, 5}));
  EXPECT_EQ(questions[0].ending_bytes, (std::vector<Count>{1, 2}));
  EXPECT_EQ(questions[1].line, 4);
  EXPECT_EQ(questions[1].label, 0);
  EXPECT_EQ(questions[1].endings[0].targets, (std::vector<std::int32_t>{-1, 3})) << "there is a space";
  EXPECT_EQ(questions[1].endings[1].targets, (std::vector<std::int32_t>{-1, 1, 4}));
  EXPECT_EQ(read(kGood + "\n" + kGood, 8, 1).size(), 1u);
  EXPECT_EQ(read("\r\n" + kGood + "\r\n").size(), 1u) << "as Windows writes it";
}

TEST(Choices, OfALongTextTheBeginningIsLeftOut) {
  const auto questions = read(R"({"ctx": "abcdefgh", "endings": ["a", "hhh"], "label": 0})", 4);
  EXPECT_EQ(questions[0].endings[0].inputs, (std::vector<std::int32_t>{7, 8, 9, 1}));
  EXPECT_EQ(questions[0].endings[0].targets, (std::vector<std::int32_t>{-1, -1, 1, 2}));
  EXPECT_EQ(questions[0].endings[1].inputs, (std::vector<std::int32_t>{9, 1, 9, 9}))
      << "all four tokens of the ending are targets";
  EXPECT_EQ(questions[0].endings[1].targets, (std::vector<std::int32_t>{1, 9, 9, 9}));
}

TEST(Choices, BadLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> bad{
      {R"({"ctx": "a", "endings": ["b", "c"], "label": 1)", "the line is not valid JSON"},
      {R"([1, 2])", "not a JSON object"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": )" + std::string(200, '[') + std::string(200, ']') + "}",
       "nested deeper than 64 levels"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": 1e999})", "the line is not valid JSON"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": 1, "label": 0})", "has the key 'label' twice"},
      {R"({"endings": ["b", "c"], "label": 1})", R"(no field "ctx" (or "context"))"},
      {R"({"ctx": "", "endings": ["b", "c"], "label": 1})", R"("ctx" is not a text, or empty)"},
      {R"({"ctx": 3, "endings": ["b", "c"], "label": 1})", R"("ctx" is not a text, or empty)"},
      {R"({"ctx": "a", "label": 1})", R"("endings" is not a list of at least two texts)"},
      {R"({"ctx": "a", "endings": ["b"], "label": 0})", R"("endings" is not a list of at least two texts)"},
      {R"({"ctx": "a", "endings": ["b", ""], "label": 0})", "ending 1 is not a text, or empty"},
      {R"({"ctx": "a", "endings": ["b", "c"]})", R"("label" is null)"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": 2})", R"("label" is 2, but must be the number of an ending, 0 to 1)"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": -1})", R"("label" is -1)"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": 0.5})", R"("label" is 0.5)"},
      {R"({"ctx": "a", "endings": ["b", "c"], "label": "1x"})", R"("label" is "1x")"},
      {R"({"ctx": "az", "endings": ["b", "c"], "label": 0})", "the character U+007A 'z'"},
      {R"({"ctx": "a", "endings": ["b", "bbbbbbbb"], "label": 0})", "an ending of 9 tokens, but the model's context has 8"}};
  for (const auto& [line, what] : bad) EXPECT_ERROR(read(kGood + "\n" + line), ExitCode::data, "q.jsonl:2: ", what.c_str());
  EXPECT_ERROR(read("\n \n"), ExitCode::data, "q.jsonl: no questions");
}

}  // namespace
}  // namespace cohort::test
