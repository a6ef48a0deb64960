#include "data/token_statistics.hpp"

#include <algorithm>
#include <bit>

#include "data/utf8.hpp"

namespace cohort {
namespace {

void note_bad(BadTokens& bad, Split split, Count token) {
  ++bad.count;
  if (!bad.first) bad.first = TokenPlace{split, token};
}

// Decodes tokens as they come and looks at the bytes.
class DecodedText {
 public:
  explicit DecodedText(const Tokenizer& tokenizer) {
    for (Count id = 0; id < tokenizer.vocabulary_size(); ++id) texts_.push_back(tokenizer.text_of(static_cast<std::int32_t>(id)));
  }

  void add(Split split, Count begin, std::span<const std::int32_t> ids, TokenStatistics& statistics) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string& text = texts_[static_cast<std::size_t>(ids[i])];
      if (text.empty()) note_bad(statistics.without_text, split, begin + static_cast<Count>(i));
      text_ += text;
      look(split, begin + static_cast<Count>(i), false, statistics);
    }
  }
  void end(Split split, Count token, TokenStatistics& statistics) { look(split, token, true, statistics); }

 private:
  // Takes whole characters off the front; what may be the beginning of one waits for more.
  void look(Split split, Count token, bool ended, TokenStatistics& statistics) {
    std::size_t position = 0;
    while (position < text_.size()) {
      if (code_point_at(text_, position)) continue;
      if (!ended && text_.size() - position < 4 && may_continue(position)) break;
      note_bad(statistics.not_utf8, split, token);
      ++position;
    }
    text_.erase(0, position);
  }
  bool may_continue(std::size_t position) const {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text_[i]); };
    const std::size_t length = byte(position) > 0xF4    ? 0
                               : byte(position) >= 0xF0 ? 4
                               : byte(position) >= 0xE0 ? 3
                               : byte(position) >= 0xC2 ? 2
                                                        : 0;
    if (text_.size() - position >= length) return false;
    return std::all_of(text_.begin() + static_cast<std::ptrdiff_t>(position) + 1, text_.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; });
  }

  std::vector<std::string> texts_;  // of each id
  std::string text_;                // not looked at yet
};

void add_documents(const TokenFile& file, Split split, DocumentLengths& lengths) {
  constexpr Count kBlock = 1 << 16;
  std::vector<std::uint64_t> starts;
  for (Count first = 0; first < file.documents(split); first += kBlock) {
    const Count count = std::min(kBlock, file.documents(split) - first);
    starts.resize(static_cast<std::size_t>(count) + 1);
    file.read_documents(split, first, starts);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const auto length = static_cast<Count>(starts[i + 1] - starts[i]);
      const auto size = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)) - 1);
      if (lengths.by_size.size() <= size) lengths.by_size.resize(size + 1);
      ++lengths.by_size[size];
      lengths.shortest = lengths.documents == 0 ? length : std::min(lengths.shortest, length);
      lengths.longest = std::max(lengths.longest, length);
      lengths.tokens += length;
      ++lengths.documents;
    }
  }
}

Count counted_tokens(const TokenFile& file, Split split) {
  constexpr Count kBlock = 1 << 20;
  std::vector<std::uint8_t> counted;
  Count sum = 0;
  for (Count first = 0; first < file.tokens(split); first += kBlock) {
    counted.resize(static_cast<std::size_t>(std::min(kBlock, file.tokens(split) - first)));
    file.read_counted(split, first, counted);
    sum += std::count(counted.begin(), counted.end(), 1);
  }
  return sum;
}

}  // namespace

TokenStatistics statistics_of(const TokenFile& file, const Progress& progress) {
  TokenStatistics statistics;
  statistics.counts.resize(static_cast<std::size_t>(file.vocabulary_size()));
  DecodedText decoded(file.tokenizer());
  const Count total = file.tokens(Split::train) + file.tokens(Split::validation);
  std::array<Count, 2> done{};
  file.verify([&](Split split, std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) ++statistics.counts[static_cast<std::size_t>(id)];
    Count& of_split = done[static_cast<std::size_t>(split)];
    decoded.add(split, of_split, ids, statistics);
    of_split += static_cast<Count>(ids.size());
    if (of_split == file.tokens(split)) decoded.end(split, of_split - 1, statistics);
    if (progress) progress(static_cast<double>(done[0] + done[1]) / static_cast<double>(total));
  });
  for (const Split split : {Split::train, Split::validation}) {
    add_documents(file, split, statistics.documents);
    if (!file.chat_template().empty()) statistics.counted[static_cast<std::size_t>(split)] = counted_tokens(file, split);
  }
  return statistics;
}

}  // namespace cohort
