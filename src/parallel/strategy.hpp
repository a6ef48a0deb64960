// The strategies of data parallelism by their names in run files: the one place that knows them all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "comm/own_all_reduce.hpp"
#include "config/run_config.hpp"
#include "models/model.hpp"
#include "parallel/data/data_parallel.hpp"

namespace cohort {

/// Whether a strategy of this name keeps the parameters itself: its model is declared (declare_model), not made.
bool is_sharded(const std::string& strategy);

/// The strategy that `parallel.data` names. `model_config` and `seed` build the second replica of "manual"; `reduction` is the
/// type in which gradients are summed, by those that can.
std::unique_ptr<DataParallel> make_data_parallel(const ParallelSection& config, const ModelSection& model_config,
                                                 std::uint64_t seed, Model& model, Communicator& group,
                                                 DType reduction = DType::f32);

/// From now on the strategies naive, hooks and bucketed sum gradients by this function, on ranks of hosts; other strategies of
/// several ranks are refused then (Error(usage)). An empty function ends it. For the course, where a learner has written it.
void use_own_all_reduce(OwnAllReduce all_reduce);
/// That function; empty if there is none.
const OwnAllReduce& own_all_reduce();

/// Makes a strategy that sums fp32 gradients in the memory of hosts.
using MakeStrategy =
    std::function<std::unique_ptr<DataParallel>(const ParallelSection& config, Model& model, Communicator& group)>;
/// From now on `make` makes the strategy that run files call `name`, for several ranks; those without one of their own are
/// refused then (Error(usage)). An empty function ends it. For the course, where a learner has written it.
void use_own_strategy(const std::string& name, MakeStrategy make);

/// The same of the strategies zero1, zero2 and zero3, over all ranks of a group: gradients are reduced to shards and weights
/// gathered by these. Empty functions end it.
void use_own_shard_collectives(OwnShardCollectives collectives);

}  // namespace cohort
