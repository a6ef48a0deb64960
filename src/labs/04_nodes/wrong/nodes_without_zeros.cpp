// expand_node_list: name 0 is "n8", but the node is called "n08": a range has at least as many digits as its first number
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Numbers, not digits.
void expand_node_list(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(",["), list.size());
    const std::string name(list.substr(0, end));
    list.remove_prefix(end);
    if (list.starts_with('[')) {
      const std::size_t close = list.find(']');
      std::string_view numbers = list.substr(1, close - 1);
      while (!numbers.empty()) {
        const std::string_view range = numbers.substr(0, numbers.find(','));
        numbers.remove_prefix(std::min(range.size() + 1, numbers.size()));
        const std::size_t dash = range.find('-');
        const std::string first(range.substr(0, dash)), last(dash == std::string_view::npos ? range : range.substr(dash + 1));
        for (long number = std::stol(first); number <= std::stol(last); ++number) {
          std::string digits = std::to_string(number);

          names.push_back(name + digits);
        }
      }
      list.remove_prefix(close + 1);
    } else {
      names.push_back(name);
    }
    if (list.starts_with(',')) list.remove_prefix(1);
  }
}
