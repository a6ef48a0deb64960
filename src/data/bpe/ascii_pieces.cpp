#include "data/bpe/ascii_pieces.hpp"

#include <algorithm>
#include <array>

namespace cohort {
namespace {

constexpr std::array<AsciiRules, 4> kRules{{
    {.name = "gpt-2", .expression = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {.name = "cl100k",
     .expression =
         R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
     .joins_line_ends = true,
     .most_digits = 3},
    {.name = {},
     .expression =  // Llama 3
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .joins_line_ends = true,
     .most_digits = 3,
     .ends_with_all_spaces = false},
    {.name = {},
     .expression =  // Qwen 2 and 3
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     .joins_line_ends = true,
     .most_digits = 1,
     .ends_with_all_spaces = false},
}};

// Kinds of characters. kUnknown is a byte beyond ASCII, or one that is too far ahead; kEnd stands behind the text.
enum Kind : unsigned { kLetter = 1, kDigit = 2, kOther = 4, kBlank = 8, kLineEnd = 16, kUnknown = 32, kEnd = 64 };
constexpr unsigned kAnySpace = kBlank | kLineEnd;

constexpr std::array<unsigned char, 256> kKinds = [] {
  std::array<unsigned char, 256> kinds{};
  for (unsigned c = 0; c < 256; ++c) {
    const unsigned lower = c | 0x20u;
    kinds[c] = c >= 0x80                        ? kUnknown
               : lower >= 'a' && lower <= 'z'   ? kLetter
               : c >= '0' && c <= '9'           ? kDigit
               : c == '\r' || c == '\n'         ? kLineEnd
               : c == ' ' || (c >= 9 && c < 14) ? kBlank
                                                : kOther;
  }
  return kinds;
}();

class Piece {
 public:
  Piece(const AsciiRules& rules, std::string_view text, std::size_t begin)
      : rules_(rules), text_(text), begin_(begin), limit_(std::min(text.size(), begin + kLooksAhead)) {}

  std::size_t end() const {
    const unsigned first = kind(begin_), second = kind(begin_ + 1);
    if (((first | second) & kUnknown) != 0) return 0;
    if (text_[begin_] == '\'' && second == kLetter) {
      if (const std::size_t size = contraction(); size > 0) return begin_ + size;
    }
    return rules_.joins_line_ends ? joined(first, second) : as_gpt2(first, second);
  }

 private:
  unsigned kind(std::size_t at) const {
    if (at < limit_) return kKinds[static_cast<unsigned char>(text_[at])];
    return limit_ == text_.size() ? kEnd : kUnknown;
  }

  // Behind the characters of `kinds` from `at` on; 0 if what follows is unknown.
  std::size_t run(std::size_t at, unsigned kinds) const {
    while ((kind(at) & kinds) != 0) ++at;
    return kind(at) == kUnknown ? 0 : at;
  }

  // The bytes of the contraction that begins here; 0: none. No letter beyond ASCII is the second one of any, in either case.
  std::size_t contraction() const {
    const auto letter = [&](std::size_t at) {
      const char c = at < limit_ ? text_[at] : '\0';
      return rules_.joins_line_ends && kind(at) == kLetter ? static_cast<char>(c | 0x20) : c;
    };
    const char a = letter(begin_ + 1), b = letter(begin_ + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
  }

  std::size_t as_gpt2(unsigned first, unsigned second) const {
    const bool takes_space = text_[begin_] == ' ' && (second & (kLetter | kDigit | kOther)) != 0;
    const unsigned body = takes_space ? second : first;
    return (body & kAnySpace) != 0 ? spaces() : run(begin_ + (takes_space ? 1 : 0), body);
  }

  std::size_t joined(unsigned first, unsigned second) const {
    if (first == kLetter) return run(begin_, kLetter);
    if (second == kLetter && (first & (kDigit | kLineEnd)) == 0) return run(begin_ + 1, kLetter);
    if (first == kDigit) return digits();
    const bool takes_space = text_[begin_] == ' ' && second == kOther;
    if (first != kOther && !takes_space) return spaces();
    const std::size_t end = run(begin_ + (takes_space ? 1 : 0), kOther);
    return end == 0 ? 0 : run(end, kLineEnd);
  }

  std::size_t digits() const {
    std::size_t end = begin_;
    while (end - begin_ < rules_.most_digits && kind(end) == kDigit) ++end;
    return end - begin_ < rules_.most_digits && kind(end) == kUnknown ? 0 : end;
  }

  std::size_t spaces() const {
    const std::size_t end = run(begin_, kAnySpace);
    if (end == 0) return 0;
    const bool ends_text = kind(end) == kEnd;
    if (ends_text && rules_.ends_with_all_spaces) return end;
    for (std::size_t at = end; rules_.joins_line_ends && at > begin_; --at) {
      if (kind(at - 1) == kLineEnd) return at;
    }
    return ends_text || end - begin_ == 1 ? end : end - 1;  // the last space belongs to what follows
  }

  const AsciiRules& rules_;
  std::string_view text_;
  std::size_t begin_, limit_;
};

}  // namespace

std::span<const AsciiRules> ascii_rules() { return kRules; }

std::size_t end_of_ascii_piece(const AsciiRules& rules, std::string_view text, std::size_t begin) {
  return Piece(rules, text, begin).end();
}

}  // namespace cohort
