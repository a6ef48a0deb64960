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

}  // namespace

void use_own_all_reduce(OwnAllReduce all_reduce) { kept_all_reduce() = std::move(all_reduce); }

const OwnAllReduce& own_all_reduce() { return kept_all_reduce(); }

void use_own_strategy(const std::string& name, MakeStrategy make) {
  if (make) {
    own_strategies()[name] = std::move(make);
  } else {
    own_strategies().erase(name);
  }
}

std::unique_ptr<DataParallel> make_data_parallel(const ParallelSection& config, const ModelSection& model_config,
                                                 std::uint64_t seed, Model& model, Communicator& group, DType reduction) {
  const bool alone = group.size() == 1 || group.backend() == "counting";
  if (!own_strategies().empty() && !alone) return make_own_strategy(config, model, group, reduction);
  if (!own_all_reduce() || alone) return make_strategy(config, model_config, seed, model, group, reduction);
  if (config.data != "naive" && config.data != "hooks" && config.data != "bucketed")
    throw SharedError(ExitCode::usage,
                      fmt::format("parallel.data = \"{}\" all-reduces no gradients: with an all-reduce of your own choose naive, "
                                  "hooks or bucketed",
                                  config.data));
  require_host_sums(group, reduction);
  std::unique_ptr<Communicator> own = with_own_all_reduce(group, own_all_reduce());
  std::unique_ptr<DataParallel> strategy = make_strategy(config, model_config, seed, model, *own, reduction);
  strategy->keep(std::move(own));
  return strategy;
}

}  // namespace cohort
