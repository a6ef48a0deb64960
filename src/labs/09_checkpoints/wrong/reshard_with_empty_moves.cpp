// reshard_plan: has no elements
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using cohort::lab::DiskFolder;
using cohort::lab::Link;

// Each old shard with each new one, also where they do not meet.
void reshard_plan(std::span<const std::size_t> old_sizes, std::span<const std::size_t> new_sizes, std::vector<ShardMove>& moves) {
  std::size_t new_begin = 0;
  for (std::size_t to = 0; to < new_sizes.size(); new_begin += new_sizes[to++]) {
    std::size_t old_begin = 0;
    for (std::size_t from = 0; from < old_sizes.size(); old_begin += old_sizes[from++]) {
      const std::size_t begin = std::max(old_begin, new_begin);
      const std::size_t end = std::min(old_begin + old_sizes[from], new_begin + new_sizes[to]);
      if (begin <= end) moves.push_back({from, to, begin, end - begin});
    }
  }
}
