#include "train/text_stream.hpp"

#include <gtest/gtest.h>

namespace cohort::test {
namespace {

// A token a byte.
const Tokenizer& bytes() {
  static const auto tokenizer = read_tokenizer(R"({"kind": "byte"})", "test");
  return *tokenizer;
}

struct Shown {
  std::vector<std::string> pieces;  // of each byte, then of the end
  std::string text;
  std::size_t stopped_after = 0;  // bytes; 0 = not
};

Shown show(const std::string& text, const std::vector<std::string>& stops) {
  TextStream stream(bytes(), stops);
  Shown shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    shown.pieces.push_back(stream.put(static_cast<unsigned char>(text[i])));
    if (stream.stopped() && shown.stopped_after == 0) shown.stopped_after = i + 1;
  }
  shown.pieces.push_back(stream.finish());
  shown.text = stream.text();
  std::string joined;
  for (const std::string& piece : shown.pieces) joined += piece;
  EXPECT_EQ(joined, shown.text) << "all is shown in the end, once";
  return shown;
}

TEST(TextStream, ShowsWholeCharacters) {
  const Shown shown = show("a\u00e9\u20ac\U0001f600b", {});
  EXPECT_EQ(shown.pieces, (std::vector<std::string>{"a", "", "\u00e9", "", "", "\u20ac", "", "", "", "\U0001f600", "b", ""}));
}

TEST(TextStream, BytesThatAreNoCharacterPassThrough) {
  EXPECT_EQ(show("\xffz", {}).pieces, (std::vector<std::string>{"\xff", "z", ""}));
  EXPECT_EQ(show("\x80\x80\x80\x80", {}).text, "\x80\x80\x80\x80");
  EXPECT_EQ(show("\xe2\x82", {}).pieces, (std::vector<std::string>{"", "", "\xe2\x82"})) << "an end inside a character";
  EXPECT_EQ(show("\xe2z", {}).pieces, (std::vector<std::string>{"", "\xe2z", ""}));
}

TEST(TextStream, StopsBeforeAStopString) {
  const Shown shown = show("One day END of it", {"END"});
  EXPECT_EQ(shown.text, "One day ");
  EXPECT_EQ(shown.stopped_after, 11u);
  EXPECT_EQ(show("END", {"END"}).text, "");
  EXPECT_EQ(show("no stop EN", {"END"}).text, "no stop EN");
}

// "aab" begins with "aa", and so does its second half.
TEST(TextStream, HoldsBackWhatMayBeginAStopString) {
  EXPECT_EQ(show("xaaab.", {"aab"}).pieces, (std::vector<std::string>{"x", "", "", "a", "", "", ""}));
  EXPECT_EQ(show("xaac.", {"aab"}).pieces, (std::vector<std::string>{"x", "", "", "aac", ".", ""}));
  EXPECT_EQ(show("\n\u00e9\n\n", {"\n\n"}).text, "\n\u00e9");
}

TEST(TextStream, OfSeveralTheFirstInTheText) {
  EXPECT_EQ(show("a, b. c", {".", ","}).text, "a");
  EXPECT_EQ(show("abcdef", {"cde", "bcdef", "d"}).text, "abc") << "what is whole first";
}

}  // namespace
}  // namespace cohort::test
