#include "train/conversations.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace cohort {

std::string long_conversations_warning(const RunConfig& config, const RunData& data) {
  if (!data.tokens || data.tokens->chat_template().empty()) return "";
  constexpr Count kBlock = 1 << 16;
  const TokenFile& file = *data.tokens;
  const Count all = file.documents(Split::train);
  Count longer = 0, longest = 0;
  std::vector<std::uint64_t> starts;
  for (Count first = 0; first < all; first += kBlock) {
    starts.resize(static_cast<std::size_t>(std::min(kBlock, all - first)) + 1);
    file.read_documents(Split::train, first, starts);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const auto length = static_cast<Count>(starts[i + 1] - starts[i]);
      longest = std::max(longest, length);
      longer += length > config.model.context ? 1 : 0;
    }
  }
  if (longer == 0) return "";
  return fmt::format(
      "{} of {} are longer than model.context = {} (the longest has {} tokens): what is behind the context is learned without "
      "what stands before it; shorten them, or raise model.context",
      longer, counted(all, "conversation"), config.model.context, longest);
}

}  // namespace cohort
