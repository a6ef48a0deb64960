// What every rank holds, as rank 0 knows it: the plan by which save_shards and load_shards exchange parts.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/shards.hpp"

namespace cohort {

/// A shard of some rank, without its elements.
struct ShardEntry {
  int rank = 0;
  StateShard shard;  // `elements` undefined
  Count elements = 0;
};

/// One logical tensor, and who holds what of it, by rank.
struct ShardedTensor {
  std::string dataset;
  Shape shape;
  std::vector<ShardEntry> entries;
};

/// The order in which tensors are exchanged and stored: values, then states, in the order of the model.
bool comes_before(const StateShard& a, const StateShard& b);

/// On rank 0 all ranks' tensors in that order; elsewhere nothing. // Collective over: comm
std::vector<ShardedTensor> collect_shards(Communicator& comm, const std::vector<StateShard>& shards);

/// Calls body(part, whole, n) for each run of n neighbours: elements part.. of [0, elements) of the shard are elements whole.. of
/// the tensor.
template <class Body>
void for_each_run(const StateShard& shard, Count elements, const Body& body) {
  for (Count i = 0; i < elements;) {
    const Count at = shard.begin + i;
    const Count n = std::min(shard.map.run - at % shard.map.run, elements - i);
    body(i, shard.map.global(at), n);
    i += n;
  }
}

}  // namespace cohort
