// Tokenizers: decode undoes encode, vocabularies are ordered, and what cannot be encoded is refused with its place.
#include "data/tokenizer.hpp"

#include <gtest/gtest.h>

#include <set>

#include "data/tokenizer_kind.hpp"
#include "data/utf8.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

// ASCII, two, three and four bytes, line ends of all kinds, a combining accent, a zero byte.
const std::string kTokenizerText =
    std::string("a\0b", 3) + "\r\n\tZürich \xE2\x82\xAC 5 \xF0\x9F\x90\xA2 e\xCC\x81\r\xEF\xBB\xBF";

std::unique_ptr<Tokenizer> learn(const std::string& text) {
  const std::vector<std::string_view> texts{text};
  const std::vector<std::string> sources{"my.txt"};
  return learn_tokenizer("char", texts, sources);
}

TEST(ByteTokenizer, EveryByteComesBack) {
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(static_cast<unsigned char>(i));
  const auto tokenizer = learn_tokenizer("byte", {}, {});
  const auto ids = tokenizer->encode(text);
  ASSERT_EQ(ids.size(), 256u);
  for (std::int32_t i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->vocabulary_size(), 256);
}

TEST(CharTokenizer, CodePointsInOrder) {
  const auto tokenizer = learn(
      "b\xC3\xBC"
      "a\xF0\x9F\x90\xA2"
      "b");
  EXPECT_EQ(tokenizer->vocabulary_size(), 4);
  EXPECT_EQ(tokenizer->encode("ab\xC3\xBC\xF0\x9F\x90\xA2"), (std::vector<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(tokenizer->text_of(2), "\xC3\xBC");
}

TEST(CharTokenizer, TextComesBackInBlocksOfAnySize) {
  const auto tokenizer = learn(kTokenizerText);
  const auto whole = tokenizer->encode(kTokenizerText);
  EXPECT_EQ(tokenizer->decode(whole), kTokenizerText);
  for (std::size_t size = 1; size < 5; ++size) {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> block(size);
    for (std::size_t position = 0; position < kTokenizerText.size();) {
      const Count count = tokenizer->encode_some(kTokenizerText, position, block, "text");
      ids.insert(ids.end(), block.begin(), block.begin() + count);
    }
    EXPECT_EQ(ids, whole);
  }
}

TEST(CharTokenizer, LearnsFromAllTexts) {
  const std::vector<std::string_view> texts{"ab", "", "bc"};
  const std::vector<std::string> sources{"1", "2", "3"};
  EXPECT_EQ(learn_tokenizer("char", texts, sources)->vocabulary_size(), 3);
}

TEST(CharTokenizer, RefusesWhatItCannotEncode) {
  const auto tokenizer = learn("abc");
  EXPECT_ERROR((void)tokenizer->encode("ab\xC3\xA9", "prompt"), ExitCode::data, "prompt", "U+00E9", "byte 2", "vocabulary of 3");
  EXPECT_ERROR((void)tokenizer->encode("a\n", "prompt"), ExitCode::data, "U+000A", "byte 1");
  EXPECT_ERROR((void)learn(""), ExitCode::data, "empty");
  const std::vector<std::int32_t> too_large{0, 3};
  EXPECT_ERROR((void)tokenizer->decode(too_large), ExitCode::data, "id 3", "vocabulary of 3");
  const std::vector<std::int32_t> negative{-1};
  EXPECT_ERROR((void)tokenizer->decode(negative), ExitCode::data, "id -1");
}

TEST(Utf8, InvalidBytesAreRefusedWithTheirOffset) {
  for (const char* bad : {"\x80",
                          "\xBF",
                          "\xC0\x80",
                          "\xC1\xBF",
                          "\xE0\x80\x80",
                          "\xE0\x9F\xBF",
                          "\xF0\x80\x80\x80",
                          "\xF0\x8F\xBF\xBF",
                          "\xED\xA0\x80",
                          "\xED\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF7\xBF\xBF\xBF",
                          "\xF8\x88\x80\x80\x80",
                          "\xFE",
                          "\xFF",
                          "\xC3",
                          "\xE2\x82",
                          "\xF0\x9F\x90",
                          "\xC3(",
                          "\xE2\x82(",
                          "\xF0\x9F\x90("}) {
    EXPECT_ERROR((void)learn("ok\n" + std::string(bad)), ExitCode::data, "my.txt", "invalid UTF-8 at byte 3");
  }
}

TEST(Utf8, EveryCodePointComesBack) {
  std::string text;
  std::uint32_t expected = 0;
  const auto next = [](std::uint32_t c) { return c + 1 == 0xD800 ? 0xE000 : c + 1; };
  for (std::uint32_t c = 0; c < kCodePoints; c = next(c)) append_code_point(text, c);
  for (std::size_t position = 0; position < text.size(); expected = next(expected)) {
    ASSERT_EQ(next_code_point(text, position, "text"), expected);
  }
  EXPECT_EQ(expected, kCodePoints);
}

TEST(Utf8, PrintableIsOneLineOfText) { EXPECT_EQ(printable("a\n\xC3\xA9\t\xFFz\xC2\x85"), "a\\n\xC3\xA9\\x09\\xffz\\xc2\\x85"); }

// Of every kind, and so of the next one, too.
TEST(Tokenizer, EveryKindKeepsTheTextCountsItsTokensAndTravelsAsText) {
  const std::vector<std::string_view> texts{kTokenizerText};
  const std::vector<std::string> sources{"my.txt"};
  std::set<std::string> names;
  for (const TokenizerKind* kind : all_tokenizer_kinds()) {
    SCOPED_TRACE(kind->name);
    EXPECT_TRUE(names.insert(kind->name).second);
    EXPECT_EQ(find_tokenizer_kind(kind->name), kind);
    if (kind->name == "sentencepiece") continue;  // is not learned here: sentencepiece_test.cpp
    const TokenizerLearning wanted{.vocabulary = kind->name == "bpe" ? 260 : 0, .pattern = {}, .special = {}};
    const auto tokenizer = learn_tokenizer(kind->name, texts, sources, wanted);
    EXPECT_EQ(tokenizer->kind(), kind->name);
    const auto ids = tokenizer->encode(kTokenizerText);
    EXPECT_EQ(tokenizer->decode(ids), kTokenizerText);
    EXPECT_EQ(tokenizer->count(kTokenizerText), static_cast<Count>(ids.size()));
    const auto again = read_tokenizer(tokenizer->serialise(), "x.h5");
    EXPECT_EQ(again->kind(), tokenizer->kind());
    EXPECT_EQ(again->serialise(), tokenizer->serialise());
    EXPECT_EQ(again->encode(kTokenizerText), ids);
  }
  EXPECT_EQ(names, (std::set<std::string>{"bpe", "byte", "char", "sentencepiece"}));  // the files of src/data/tokenizers
}

TEST(Tokenizer, DamagedOnesAreRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"kind": 3})", R"({"kind": "char"})", R"({"kind": "char", "code_points": []})",
                           R"({"kind": "char", "code_points": [2, 1]})", R"({"kind": "char", "code_points": [1, 1]})",
                           R"({"kind": "char", "code_points": [1, -2]})", R"({"kind": "char", "code_points": [1114112]})",
                           R"({"kind": "char", "code_points": [55296]})", R"({"kind": "char", "code_points": [99999999999999]})",
                           R"({"kind": "char", "code_points": "abc"})"}) {
    SCOPED_TRACE(text);
    EXPECT_ERROR((void)read_tokenizer(text, "x.h5"), ExitCode::data, "x.h5", "damaged");
  }
  EXPECT_ERROR((void)read_tokenizer(R"({"kind": "wordpiece"})", "x.h5"), ExitCode::data, "x.h5", "'wordpiece'",
               "bpe and byte and char");
}

}  // namespace
}  // namespace cohort
