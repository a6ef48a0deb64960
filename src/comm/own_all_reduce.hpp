// A group whose collectives are made by functions of somebody else, such as a learner's.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "comm/communicator.hpp"

namespace cohort {

/// data[i] <- sum over the ranks of `group` of data[i], in place, by messages of the group. // Collective over: group
using OwnAllReduce = std::function<void(Communicator& group, std::span<float> data)>;

/// The group `inner`, in host memory, which must outlive it; but sums of fp32 are made by `all_reduce`, while the caller waits,
/// in the asynchronous form, too. All else is inner's.
std::unique_ptr<Communicator> with_own_all_reduce(Communicator& inner, OwnAllReduce all_reduce);

/// The two halves of an all-reduce, in place, of data that is one block for each rank, by messages of the group. One leaves the
/// sum over the ranks in the rank's own block (of the others nothing is known then); the other fills all blocks from their
/// owners.
// Collective over: group
struct OwnShardCollectives {
  std::function<void(Communicator& group, std::span<float> data)> reduce_scatter;
  std::function<void(Communicator& group, std::span<float> data)> all_gather;
};

/// The same with these, of which an empty one is left to `inner`: sums and copies of fp32.
std::unique_ptr<Communicator> with_own_shard_collectives(Communicator& inner, OwnShardCollectives collectives);

}  // namespace cohort
