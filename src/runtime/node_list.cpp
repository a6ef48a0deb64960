#include "runtime/node_list.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace cohort {
namespace {

using Names = std::vector<std::string>;
constexpr std::size_t kMost = 1000000;

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "08-10,12": the numbers keep their leading zeros.
std::optional<Names> numbers_of(std::string_view ranges) {
  Names numbers;
  while (true) {
    const std::string_view range = ranges.substr(0, ranges.find(','));
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == range.size() ? low : range.substr(dash + 1);
    const auto first = number_in(low), last = number_in(high);
    if (!first || !last || *last < *first || static_cast<std::size_t>(*last - *first) >= kMost) return std::nullopt;
    for (int number = *first; number <= *last; ++number) {
      const std::string digits = std::to_string(number);
      numbers.push_back(std::string(low.size() - std::min(low.size(), digits.size()), '0') + digits);
    }
    if (range.size() == ranges.size()) return numbers;
    ranges.remove_prefix(range.size() + 1);
  }
}

// One item of the list, which may have several brackets.
std::optional<Names> expand_item(std::string_view item) {
  const std::size_t open = item.find('[');
  if (open == std::string_view::npos) return item.empty() ? std::nullopt : std::optional(Names{std::string(item)});
  const std::size_t close = item.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  const auto numbers = numbers_of(item.substr(open + 1, close - open - 1));
  const std::string_view rest = item.substr(close + 1);
  const auto ends = rest.empty() ? std::optional(Names{""}) : expand_item(rest);
  if (!numbers || !ends || numbers->size() > kMost / ends->size()) return std::nullopt;
  Names names;
  for (const std::string& number : *numbers) {
    for (const std::string& end : *ends) names.push_back(std::string(item.substr(0, open)) + number + end);
  }
  return names;
}

}  // namespace

std::optional<Names> expand_node_list(std::string_view text) {
  Names names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '[') ++depth;
    if (at < text.size() && text[at] == ']') --depth;
    if (at < text.size() && (text[at] != ',' || depth > 0)) continue;
    const auto item = expand_item(text.substr(begin, at - begin));
    if (!item || names.size() + item->size() > kMost) return std::nullopt;
    names.insert(names.end(), item->begin(), item->end());
    begin = at + 1;
  }
  return names;
}

}  // namespace cohort
