// reshard_plan: goes to rank
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

// Old shards go as a whole to where their first element belongs.
void reshard_plan(std::span<const std::size_t> old_sizes, std::span<const std::size_t> new_sizes, std::vector<ShardMove>& moves) {
  std::size_t begin = 0, to = 0, new_end = new_sizes.empty() ? 0 : new_sizes[0];
  for (std::size_t from = 0; from < old_sizes.size(); ++from) {
    while (begin >= new_end && to + 1 < new_sizes.size()) new_end += new_sizes[++to];
    if (old_sizes[from] > 0) moves.push_back({from, to, begin, old_sizes[from]});
    begin += old_sizes[from];
  }
}
