#include "parallel/strategy.hpp"

#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/own_all_reduce.hpp"

#include "parallel/data/bucketed.hpp"
#include "parallel/data/hooked_all_reduce.hpp"
#include "parallel/data/manual.hpp"
#include "parallel/data/monolith.hpp"
#include "parallel/data/naive.hpp"
#include "parallel/zero/zero1.hpp"
#include "parallel/zero/zero2.hpp"
#include "parallel/zero/zero3.hpp"

namespace cohort {

bool is_sharded(const std::string& strategy) { return strategy.starts_with("zero"); }

namespace {

OwnAllReduce& kept_all_reduce() {
  static OwnAllReduce function;
  return function;
}

OwnShardCollectives& own_shard_collectives() {
  static OwnShardCollectives functions;
  return functions;
}

std::map<std::string, MakeStrategy>& own_strategies() {
  static std::map<std::string, MakeStrategy> by_name;
  return by_name;
}

void require_host_sums(const Communicator& group, DType reduction) {
  if (group.backend() != "mpi" || reduction != DType::f32)
    throw SharedError(ExitCode::usage, "code of your own sums fp32 gradients in the memory of hosts: train on CPUs, in fp32");
}

std::unique_ptr<DataParallel> make_own_strategy(const ParallelSection& config, Model& model, Communicator& group,
                                                DType reduction) {
  const auto own = own_strategies().find(config.data);
  if (own == own_strategies().end()) {
    std::vector<std::string> names;
    for (const auto& [name, make] : own_strategies()) names.push_back(name);
    throw SharedError(ExitCode::usage, fmt::format("parallel.data = \"{}\" does not use the code of your own: choose {}",
                                                   config.data, join(names, " or ")));
  }
  require_host_sums(group, reduction);
  return own->second(config, model, group);
}

std::unique_ptr<DataParallel> make_strategy(const ParallelSection& config, const ModelSection& model_config, std::uint64_t seed,
                                            Model& model, Communicator& group, DType reduction) {
  if (config.data == "monolith") return std::make_unique<Monolith>(model, group);
  if (config.data == "manual") return std::make_unique<Manual>(model, group, make_model(model_config, seed, model.storage()));
  if (config.data == "naive") return std::make_unique<Naive>(model, group);
  if (config.data == "hooks") return std::make_unique<HookedAllReduce>(model, group);
  if (config.data == "bucketed") {
    return std::make_unique<Bucketed>(model, group, static_cast<Bytes>(config.bucket_mib * static_cast<double>(kMiB)), reduction);
  }
  const ShardOptions shards{.wrap = config.wrap,
                            .shard_ranks = static_cast<int>(config.shard_ranks),
                            .seed = seed,
                            .reduction = reduction,
                            .values_on_host = config.offload != "none",
                            .compute_on_host = config.offload == "parameters"};
  if (config.data == "zero1") return std::make_unique<Zero1>(model, group, shards);
  if (config.data == "zero2") return std::make_unique<Zero2>(model, group, shards);
  if (config.data == "zero3") return std::make_unique<Zero3>(model, group, shards);
  fail(ExitCode::config,
       "parallel.data = \"{}\" is unknown; available: monolith, manual, naive, hooks, bucketed, zero1, zero2, zero3",
       config.data);
}

// `group` with somebody's own collectives in it; null if this strategy on this group has its own way. Throws SharedError(usage)
// where they cannot be used.
std::unique_ptr<Communicator> with_own_collectives(const ParallelSection& config, const ModelStorage& storage,
                                                   Communicator& group, DType reduction) {
  const bool sums = static_cast<bool>(own_all_reduce());
  const bool shards = own_shard_collectives().reduce_scatter || own_shard_collectives().all_gather;
  if ((!sums && !shards) || group.size() == 1 || group.backend() == "counting") return nullptr;
  if (sums && config.data != "naive" && config.data != "hooks" && config.data != "bucketed")
    throw SharedError(ExitCode::usage,
                      fmt::format("parallel.data = \"{}\" all-reduces no gradients: with an all-reduce of your own choose naive, "
                                  "hooks or bucketed",
                                  config.data));
  if (shards && !is_sharded(config.data))
    throw SharedError(
        ExitCode::usage,
        fmt::format("parallel.data = \"{}\" has no shards: with a reduce-scatter or an all-gather of your own choose "
                    "zero1, zero2 or zero3",
                    config.data));
  if (shards && config.shard_ranks != 0 && config.shard_ranks != group.size())
    throw SharedError(ExitCode::usage, "collectives of your own are for shards over all ranks: leave out parallel.shard_ranks");
  if (group.backend() != "mpi" || reduction != DType::f32 || (shards && storage.compute != DType::f32))
    throw SharedError(ExitCode::usage,
                      fmt::format("{} of your own {} in the memory of hosts: train on CPUs, in fp32",
                                  sums ? "an all-reduce" : "collectives", sums ? "sums fp32 gradients" : "pass fp32"));
  return sums ? with_own_all_reduce(group, own_all_reduce()) : with_own_shard_collectives(group, own_shard_collectives());
}

}  // namespace

void use_own_all_reduce(OwnAllReduce all_reduce) { kept_all_reduce() = std::move(all_reduce); }

const OwnAllReduce& own_all_reduce() { return kept_all_reduce(); }

void use_own_shard_collectives(OwnShardCollectives collectives) { own_shard_collectives() = std::move(collectives); }

void use_own_strategy(const std::string& name, MakeStrategy make) {
  if (make) {
    own_strategies()[name] = std::move(make);
  } else {
    own_strategies().erase(name);
  }
}

std::unique_ptr<DataParallel> make_data_parallel(const ParallelSection& config, const ModelSection& model_config,
                                                 std::uint64_t seed, Model& model, Communicator& group, DType reduction) {
  if (!own_strategies().empty() && group.size() > 1 && group.backend() != "counting")
    return make_own_strategy(config, model, group, reduction);
  std::unique_ptr<Communicator> own = with_own_collectives(config, model.storage(), group, reduction);
  std::unique_ptr<DataParallel> strategy = make_strategy(config, model_config, seed, model, own ? *own : group, reduction);
  if (own) strategy->keep(std::move(own));
  return strategy;
}

}  // namespace cohort
