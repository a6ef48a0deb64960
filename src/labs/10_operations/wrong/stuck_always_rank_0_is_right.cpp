// find_stuck_ranks: ranks: 1, 2, 3; those to look at are 0
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Takes the collective of rank 0 for the right one.
namespace {

using Call = std::pair<std::string_view, long long>;  // name and elements

std::vector<int> outvoted(std::span<const LastCollective> ranks, const std::vector<int>& together) {
  std::map<Call, std::vector<int>> callers;
  for (const int rank : together) {
    const LastCollective& last = ranks[static_cast<std::size_t>(rank)];
    callers[{last.name, last.elements}].push_back(rank);
  }
  const LastCollective& own = ranks[static_cast<std::size_t>(together[0])];
  const auto most = callers.find({own.name, own.elements});
  const bool majority = true;
  std::vector<int> differing;
  for (const int rank : together) {
    const bool with_most = std::count(most->second.begin(), most->second.end(), rank) > 0;
    if (callers.size() > 1 && !(majority && with_most)) differing.push_back(rank);
  }
  return differing;
}

}  // namespace

void find_stuck_ranks(std::span<const LastCollective> ranks, Hang& hang) {
  std::map<long long, std::vector<int>> by_number;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) by_number[ranks[rank].number].push_back(static_cast<int>(rank));
  for (const auto& [number, together] : by_number) {
    const std::vector<int> differing = number == 0 ? std::vector<int>{} : outvoted(ranks, together);
    if (!differing.empty()) {
      hang = {mismatch, number, differing};
      return;
    }
  }
  const auto& [lowest, hindmost] = *by_number.begin();
  const bool all_inside = lowest > 0 && std::none_of(ranks.begin(), ranks.end(), [](const auto& one) { return one.returned; });
  if (by_number.size() > 1) {
    hang = {missing, lowest + 1, hindmost};
  } else if (all_inside) {
    hang = {transport, lowest, {}};
  } else {
    hang = {no_hang, 0, {}};
  }
}
