#include "train/conversations.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace cohort {

namespace {

struct Lengths {
  Count all = 0, longer = 0;  // conversations, and those longer than the context
  Count longest = 0;
};

void add_lengths(const TokenFile& file, Count context, Lengths& lengths) {
  constexpr Count kBlock = 1 << 16;
  const Count all = file.documents(Split::train);
  lengths.all += all;
  std::vector<std::uint64_t> starts;
  for (Count first = 0; first < all; first += kBlock) {
    starts.resize(static_cast<std::size_t>(std::min(kBlock, all - first)) + 1);
    file.read_documents(Split::train, first, starts);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const auto length = static_cast<Count>(starts[i + 1] - starts[i]);
      lengths.longest = std::max(lengths.longest, length);
      lengths.longer += length > context ? 1 : 0;
    }
  }
}

}  // namespace

std::string long_conversations_warning(const RunConfig& config, const RunData& data) {
  Lengths lengths;
  const auto add = [&](const TokenFile& file) {
    if (!file.chat_template().empty()) add_lengths(file, config.model.context, lengths);
  };
  if (data.tokens && data.sources.empty()) add(*data.tokens);
  for (const TokenSourceFile& source : data.sources) add(*source.file);
  if (lengths.longer == 0) return "";
  return fmt::format(
      "{} of {} are longer than model.context = {} (the longest has {} tokens): what is behind the context is learned without "
      "what stands before it; shorten them, or raise model.context",
      lengths.longer, counted(lengths.all, "conversation"), config.model.context, lengths.longest);
}

}  // namespace cohort
