// gather_sharded: which wants to receive
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

// Takes for granted that all shards are as long as its own.
void gather_sharded(Link& link, std::span<const float> shard, std::span<const std::size_t> sizes, std::span<float> whole) {
  if (link.rank() != 0) return link.send(0, shard);
  (void)sizes;
  std::copy(shard.begin(), shard.end(), whole.begin());
  for (int rank = 1; rank < link.ranks(); ++rank)
    link.receive(rank, whole.subspan(static_cast<std::size_t>(rank) * shard.size(), shard.size()));
}
