#include "data/bpe/split_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

// White_Space of Unicode. PCRE2's own \s lacks U+0085.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// \s and \S spelt out. Within brackets \S cannot be; no published pattern has it there.
std::string with_unicode_spaces(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char next = expression[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpace) : fmt::format("[{}]", kSpace);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kSpace);
      } else if (next == 'S') {
        fail(ExitCode::data, "split pattern '{}': \\S within brackets, at {}, is not supported", expression, i - 1);
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

constexpr std::size_t kWindow = 256;  // bytes looked at first; most pieces are words

// `size` or up to three bytes less, so that text[begin + size] does not continue a character.
std::size_t between_characters(std::string_view text, std::size_t begin, std::size_t size) {
  for (std::size_t less = 0; less <= 3 && less < size && begin + size - less < text.size(); ++less) {
    if ((static_cast<unsigned char>(text[begin + size - less]) & 0xC0u) != 0x80u) return size - less;
  }
  return size;
}

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  bool jit = false;

  ~Compiled() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }

  int run(const char* text, std::size_t size, std::uint32_t options) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text);
    // Compiled code has a stack of 32 KiB; patterns of a user's own may need more, which the interpreter takes from the heap.
    const int found = jit ? pcre2_jit_match(code, subject, size, 0, options, match, nullptr) : PCRE2_ERROR_JIT_STACKLIMIT;
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(code, subject, size, 0, options | PCRE2_NO_JIT, match, nullptr);
  }
};

std::string_view named_split_pattern(std::string_view name) {
  for (const AsciiRules& rules : ascii_rules()) {
    if (!rules.name.empty() && rules.name == name) return rules.expression;
  }
  return {};
}

SplitPattern::SplitPattern(std::string expression) : expression_(std::move(expression)), compiled_(std::make_unique<Compiled>()) {
  if (const std::string_view named = named_split_pattern(expression_); !named.empty()) expression_ = named;
  for (const AsciiRules& rules : ascii_rules()) {
    if (rules.expression == expression_) ascii_ = &rules;
  }
  const std::string in_full = with_unicode_spaces(expression_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(in_full.data()), in_full.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr);
  if (compiled_->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    fail(ExitCode::data, "split pattern '{}': {}, at {} of '{}'", expression_, reinterpret_cast<const char*>(text.data()), offset,
         in_full);
  }
  compiled_->jit = pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  compiled_->match = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
  COHORT_CHECK(compiled_->match != nullptr, "no memory for the matches of a split pattern");
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;

std::size_t SplitPattern::end_of_piece(std::string_view text, std::size_t begin) const {
  if (ascii_ != nullptr) {
    if (const std::size_t end = end_of_ascii_piece(*ascii_, text, begin); end > 0) return end;
  }
  return end_by_expression(text, begin);
}

// The expression sees a window of the text. PCRE2 says "partial" as soon as it looks beyond the window's end, which then grows:
// the answer is that of the whole text, and no call costs more than its piece.
std::size_t SplitPattern::end_by_expression(std::string_view text, std::size_t begin) const {
  const std::size_t rest = between_characters(text, begin, std::min(text.size() - begin, kLongest));
  for (std::size_t wanted = kWindow;; wanted *= 4) {
    const bool whole = wanted >= rest;
    const std::size_t window = whole ? rest : between_characters(text, begin, wanted);
    const int found = compiled_->run(text.data() + begin, window, whole ? 0 : PCRE2_PARTIAL_HARD);
    if (found == PCRE2_ERROR_PARTIAL) continue;
    if (found == PCRE2_ERROR_NOMATCH) {
      if (whole) return begin + rest;
      continue;
    }
    if (found < 0) {
      std::array<PCRE2_UCHAR, 256> why{};
      pcre2_get_error_message(found, why.data(), why.size());
      fail(ExitCode::data, "split pattern '{}': PCRE2 gave up: {}", expression_, reinterpret_cast<const char*>(why.data()));
    }
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(compiled_->match);
    if (at[0] > 0) return begin + at[0];  // what comes before the match
    if (at[1] > 0) return begin + at[1];
    return begin + 1;  // an expression that matches nothing at all
  }
}

}  // namespace cohort
