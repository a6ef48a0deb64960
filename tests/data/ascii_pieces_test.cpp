// Pieces of ASCII by hand are those of the expression: of all short texts over characters that stand for every case, and of
// random long ones, with bytes beyond ASCII and behind them whatever there may be.
#include "data/bpe/ascii_pieces.hpp"

#include <gtest/gtest.h>

#include <random>

#include "data/bpe/split_pattern.hpp"
#include "data/utf8.hpp"

namespace cohort {
namespace {

// Says what differs and returns false, at the first piece of a text that differs.
bool pieces_agree(const SplitPattern& pattern, std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = pattern.end_of_piece(text, begin), wanted = pattern.end_by_expression(text, begin);
    if (end != wanted) {
      ADD_FAILURE() << pattern.expression() << " of '" << printable(text) << "': the piece at " << begin << " ends at " << end
                    << ", by the expression at " << wanted;
      return false;
    }
    begin = end;
  }
  return true;
}

// All texts of up to `length` of these parts.
bool all_texts_agree(const SplitPattern& pattern, const std::vector<std::string>& parts, int length,
                     const std::string& before = {}) {
  for (const std::string& part : parts) {
    const std::string text = before + part;
    if (!pieces_agree(pattern, text)) return false;
    if (length > 1 && !all_texts_agree(pattern, parts, length - 1, text)) return false;
  }
  return true;
}

class AsciiPieces : public testing::TestWithParam<AsciiRules> {
 protected:
  const SplitPattern pattern_{std::string(GetParam().expression)};
};

// The letters of contractions in both cases, a letter of none, digits, punctuation, the kinds of white space, a control character
// that is none; a letter, a digit, a space and punctuation beyond ASCII; the long s, which is an s where case does not matter; a
// byte that is no UTF-8.
TEST_P(AsciiPieces, OfAllShortTexts) {
  EXPECT_TRUE(
      all_texts_agree(pattern_, {"'", "s", "R", "e", "l", "x", "7", ".", " ", "\t", "\r", "\n", std::string(1, '\0')}, 5));
  EXPECT_TRUE(all_texts_agree(pattern_, {"'", "v", "E", "L", "d", "t", "M", "x", "2", " ", "\n", "\v"}, 4));
  EXPECT_TRUE(all_texts_agree(
      pattern_, {"'", "s", "L", "7", "-", " ", "\n", "\xC3\xA9", "\xD9\xA3", "\xC2\x85", "\xE2\x80\xA6", "\xC5\xBF", "\xFF"}, 4));
}

// Every byte between and behind all kinds of others.
TEST_P(AsciiPieces, OfEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string middle(1, static_cast<char>(byte));
    for (const std::string before : {"", "x", "'", " ", "\n", "5", "!", "'r"}) {
      for (const std::string behind : {"", "x", "'", " ", "\n", "5", "!", " x", "  "})
        ASSERT_TRUE(pieces_agree(pattern_, before + middle + behind));
    }
  }
}

// Runs that end just before and behind what is looked at ahead, of every kind, with every end.
TEST_P(AsciiPieces, OfLongRuns) {
  for (const char c : {'x', '7', '!', ' ', '\n'}) {
    for (std::size_t size = kLooksAhead - 3; size <= kLooksAhead + 3; ++size) {
      for (const std::string behind : {"", "a", " ", "\n", ".", "\r\n x", "\xC3\xA9"}) {
        ASSERT_TRUE(pieces_agree(pattern_, std::string(size, c) + behind));
        ASSERT_TRUE(pieces_agree(pattern_, " " + std::string(size, c) + behind));
      }
    }
  }
}

TEST_P(AsciiPieces, OfRandomTexts) {
  std::mt19937 random(7);  // the same in every run
  const std::vector<std::string> parts{"word", "Word",  "I",    "'ll",  "'LL",      "'",    "123456",       "7",
                                       ".",    "...\n", "\r\n", "\n\n", " ",        "   ",  "\t",           "(",
                                       "\"",   "_",     "\x7f", "\x1c", "\xC3\xA9", "\xFF", "\xE4\xB8\xAD", "\xC2\xA0"};
  for (int i = 0; i < 3000; ++i) {
    // Every third text is one of ASCII alone, and every third one of any bytes.
    std::string text;
    for (int k = 0; k < 40; ++k)
      text += i % 3 == 0 ? std::string(1, static_cast<char>(random())) : parts[random() % (i % 3 == 1 ? 20 : parts.size())];
    ASSERT_TRUE(pieces_agree(pattern_, text));
  }
}

// The rules decide most pieces of a text of ASCII: else all of the above would hold of rules that leave everything to the
// expression.
TEST_P(AsciiPieces, TheExpressionIsRarelyAsked) {
  const std::string text = "It's 1066, and (as WE'RE told)  nothing\thas happened...\r\n\n    since; x = y[12345] + 7";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_ascii_piece(GetParam(), text, begin);
    ASSERT_GT(end, begin) << text.substr(begin);
    begin = end;
  }
}

INSTANTIATE_TEST_SUITE_P(Published, AsciiPieces, testing::ValuesIn(ascii_rules().begin(), ascii_rules().end()),
                         [](const auto& rules) { return "rules" + std::to_string(rules.index); });

}  // namespace
}  // namespace cohort
