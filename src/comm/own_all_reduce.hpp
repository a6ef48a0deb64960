// A group whose sums are made by a function of somebody else, such as a learner's.
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

}  // namespace cohort
