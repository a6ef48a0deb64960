// Lab 10: one way to write it.
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

namespace {

using Call = std::pair<std::string_view, long long>;  // name and elements

// Of ranks in the same collective by number: those that called something else than most of them did.
std::vector<int> outvoted(std::span<const LastCollective> ranks, const std::vector<int>& together) {
  std::map<Call, std::vector<int>> callers;
  for (const int rank : together) {
    const LastCollective& last = ranks[static_cast<std::size_t>(rank)];
    callers[{last.name, last.elements}].push_back(rank);
  }
  const auto most = std::max_element(callers.begin(), callers.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const bool majority = 2 * most->second.size() > together.size();
  std::vector<int> differing;
  for (const int rank : together) {
    const bool with_most = std::count(most->second.begin(), most->second.end(), rank) > 0;
    if (callers.size() > 1 && !(majority && with_most)) differing.push_back(rank);
  }
  return differing;
}

}  // namespace

// 10.1
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

// 10.2
bool first_nonfinite(std::span<const SeenTensor> seen, FirstNonfinite& first) {
  const auto when = [&](std::size_t i) { return std::tuple(seen[i].step, seen[i].order, seen[i].rank); };
  bool found = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto bad =
        std::find_if(seen[i].values.begin(), seen[i].values.end(), [](float value) { return !std::isfinite(value); });
    if (bad == seen[i].values.end() || (found && when(first.tensor) <= when(i))) continue;
    first = {.tensor = i, .element = static_cast<std::size_t>(bad - seen[i].values.begin())};
    found = true;
  }
  return found;
}

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

}  // namespace

// 10.3
Straggler find_straggler(std::span<const double> seconds, std::size_t steps) {
  std::vector<double> medians;
  for (std::size_t begin = 0; begin < seconds.size(); begin += steps) {
    const auto own = seconds.subspan(begin, steps);
    medians.push_back(median({own.begin(), own.end()}));
  }
  const double usual = median(medians);
  std::vector<double> deviations;
  for (const double own : medians) deviations.push_back(std::fabs(own - usual));
  const auto slowest = std::max_element(medians.begin(), medians.end());  // the first of equal ones
  const double above = *slowest - usual;
  if (above <= 5.0 * 1.4826 * median(deviations) || above <= 0.1 * usual) return {.rank = -1, .own = 0.0, .usual = usual};
  return {.rank = static_cast<int>(slowest - medians.begin()), .own = *slowest, .usual = usual};
}

// 10.4
CheckpointInterval checkpoint_interval(double save, double restart, double node_mtbf, int nodes) {
  const double mtbf = node_mtbf / nodes, x = save / (2.0 * mtbf);
  CheckpointInterval interval{};
  interval.young = std::sqrt(2.0 * save * mtbf);
  interval.daly = save < 2.0 * mtbf ? interval.young * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - save : mtbf;
  interval.goodput = interval.daly / (mtbf * std::exp(restart / mtbf) * std::expm1((interval.daly + save) / mtbf));
  return interval;
}

// 10.5
bool stop_in_time(Link& link, bool signalled) {
  const int n = link.ranks(), rank = link.rank();
  std::array<float, 1> known{signalled ? 1.0f : 0.0f}, heard{};
  for (int distance = 1; distance < n; distance *= 2) {  // a barrier that carries a word: to hear it twice changes nothing
    link.exchange((rank + distance) % n, known, (rank + n - distance) % n, heard);
    known[0] = std::max(known[0], heard[0]);
  }
  return known[0] > 0.0f;
}

// 10.6
Retry retry_or_give_up(std::span<const JobStart> starts, int most) {
  const JobStart& last = starts.back();
  if (last.exit_code == 0) return {training_done, 0.0};
  const bool may_pass = last.exit_code == 9 || last.exit_code == 12 || (last.exit_code >= 128 && last.exit_code != 130);
  const auto got_on = [](const JobStart& start) { return start.saved_step > start.began_at; };
  if (!may_pass || static_cast<int>(starts.size()) >= most || (!got_on(last) && !last.node_lost)) return {give_up, 0.0};
  if (got_on(last)) return {start_again, 0.0};
  double wait = 20.0;
  for (std::size_t i = starts.size() - 1; i > 0 && !got_on(starts[i - 1]); --i) wait = std::min(2.0 * wait, 600.0);
  return {start_again, wait};
}
