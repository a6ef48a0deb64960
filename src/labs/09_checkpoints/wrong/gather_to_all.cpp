// gather_sharded: the others then hold more than their shards
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

// Gives the whole to everybody, and lets rank 0 keep it.
void gather_sharded(Link& link, std::span<const float> shard, std::span<const std::size_t> sizes, std::span<float> whole) {
  std::size_t all = 0;
  for (const std::size_t size : sizes) all += size;
  std::vector<float> mine(all);
  if (link.rank() != 0) {
    link.send(0, shard);
    return link.receive(0, mine);
  }
  std::copy(shard.begin(), shard.end(), whole.begin());
  std::size_t begin = sizes[0];
  for (int rank = 1; rank < link.ranks(); ++rank) {
    const std::size_t size = sizes[static_cast<std::size_t>(rank)];
    link.receive(rank, whole.subspan(begin, size));
    begin += size;
  }
  for (int rank = 1; rank < link.ranks(); ++rank) link.send(rank, whole);
}
