// Lab 4: one way to write it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using cohort::lab::Link;

namespace {

// The names that "n" and "01-03,7" stand for.
void expand_numbers(std::string_view name, std::string_view numbers, std::vector<std::string>& names) {
  while (!numbers.empty()) {
    const std::string_view range = numbers.substr(0, numbers.find(','));
    numbers.remove_prefix(std::min(range.size() + 1, numbers.size()));
    const std::size_t dash = range.find('-');
    const std::string first(range.substr(0, dash));
    const std::string last(dash == std::string_view::npos ? range : range.substr(dash + 1));
    for (long number = std::stol(first); number <= std::stol(last); ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      names.push_back(std::string(name) + digits);
    }
  }
}

}  // namespace

// 4.1
void expand_node_list(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(",["), list.size());  // of the name
    const std::string_view name = list.substr(0, end);
    list.remove_prefix(end);
    if (list.starts_with('[')) {
      const std::size_t close = list.find(']');
      expand_numbers(name, list.substr(1, close - 1), names);
      list.remove_prefix(close + 1);
    } else {
      names.emplace_back(name);
    }
    if (list.starts_with(',')) list.remove_prefix(1);
  }
}

// 4.2
void place_ranks(std::span<const int> tasks_on_node, RankDistribution distribution, int plane, std::span<RankPlace> places) {
  const int most = distribution == cyclic_distribution ? 1 : plane;  // ranks that a node takes at its turn
  std::vector<int> taken(tasks_on_node.size(), 0);
  std::size_t rank = 0;
  while (rank < places.size()) {
    for (std::size_t node = 0; node < taken.size(); ++node) {
      const int room = tasks_on_node[node] - taken[node];
      const int takes = distribution == block_distribution ? room : std::min(room, most);
      for (int i = 0; i < takes; ++i) places[rank++] = {.node = static_cast<int>(node), .local_rank = taken[node]++};
    }
  }
}

// 4.3
void barrier(Link& link) {
  const int n = link.ranks(), rank = link.rank();
  const std::array<float, 1> sent{};
  std::array<float, 1> received{};
  for (int distance = 1; distance < n; distance *= 2)
    link.exchange((rank + distance) % n, sent, (rank + n - distance) % n, received);
}

// 4.4
JobPlan plan_job(const JobRequest& request) {
  JobPlan plan{};
  plan.nodes = (request.ranks + request.ranks_per_node - 1) / request.ranks_per_node;
  plan.signal_seconds = static_cast<long long>(std::ceil(2.0 * request.step_seconds + request.save_seconds));
  const double until_signal = request.limit_seconds - static_cast<double>(plan.signal_seconds) - request.start_seconds;
  if (until_signal <= 0.0) return plan;
  plan.steps_in_job = static_cast<long long>(std::ceil(until_signal / request.step_seconds)) + 1;
  plan.jobs = (request.steps + plan.steps_in_job - 1) / plan.steps_in_job;
  return plan;
}
