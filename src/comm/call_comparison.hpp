// What the ranks of a group are about to call, compared (Communicator::check_collectives). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace cohort {

/// A call of a collective as a text that travels to the other ranks: what has to be the same on all of them in the first line,
/// who called it in the second.
std::string describe_call(const char* operation, Count elements, DType dtype, std::optional<ReduceOp> op, int root,
                          const Communicator::Site& site);

/// "" if all first lines are the same; else "rank 0 calls all_reduce of 5 fp32 (sum) at a.cpp:7, rank 2 barrier at b.cpp:9", of
/// the first rank of the group that differs from rank 0.
std::string first_difference(const std::vector<std::string>& calls);

}  // namespace cohort
