// expand_node_list: name 3 is "7]", not "n7"
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Splits at every comma, also within brackets.
void expand_node_list(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::string one(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    const std::size_t open = one.find('['), dash = one.find('-', std::min(open, one.size()));
    if (open == std::string::npos) {
      names.push_back(one);
      continue;
    }
    const std::string first = one.substr(open + 1, dash - open - 1), last = one.substr(dash + 1, one.find(']') - dash - 1);
    for (long number = std::stol(first); number <= std::stol(last); ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      names.push_back(one.substr(0, open) + digits);
    }
  }
}
