// The papers' formulas for the bytes that a rank moves; the citations are in traffic.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "parallel/pipeline/messages.hpp"
#include "parallel/strategy.hpp"
#include "parallel/zero/stage.hpp"
#include "plan/part.hpp"
#include "plan/traffic.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

PaperTraffic data_parallel(const RunConfig& config, const PlannedPart& part) {
  const int stage = zero_stage(config.parallel.data);
  const auto parameters = static_cast<double>(part.model().parameters().trained_elements());
  const auto passes = static_cast<double>(config.train.accumulation);
  const auto weight = static_cast<double>(size_of(storage_of(config).compute));
  const auto gradient = static_cast<double>(size_of(reduction_of(config)));
  if (stage == 0) return {"dp", 2 * parameters * gradient, "2 P g (ZeRO 7.1)"};
  const double reductions = stage == 1 ? 1.0 : passes;
  PaperTraffic paper{"dp", parameters * (reductions * gradient + weight), "P g + P w (ZeRO 7.1)"};
  if (stage == 2) paper.formula = "A P g + P w (ZeRO 7.1)";
  if (stage == 3) paper = {"dp", passes * parameters * (gradient + 2 * weight), "A P (g + 2 w) (ZeRO 7.2)"};
  const Count shards = config.parallel.shard_ranks;
  if (shards == 0 || shards == config.parallel.dp * config.parallel.cp) return paper;
  paper.moved += reductions * 2 * parameters * gradient / static_cast<double>(shards);
  paper.formula += fmt::format(", and 2{} P g/{} among the replicas (FSDP 3.2.2)", stage == 1 ? "" : " A", shards);
  return paper;
}

PaperTraffic tensor_parallel(const RunConfig& config, const PlannedPart& part) {
  const auto t = static_cast<double>(config.parallel.tp);
  const Bytes layers = config.train.accumulation * part.layers() * part.stream_bytes();
  return {"tp", 8.0 * static_cast<double>(layers) * (t - 1.0) / t,
          "8 R C e (t-1)/t per layer and micro-batch (Megatron 2021, 3.2)"};
}

PaperTraffic pipeline_parallel(const PlannedPart& part) {
  const Count sends = pipeline::sends_of(part.schedule(), part.stage());
  return {"pp", static_cast<double>(sends * part.stream_bytes()), "R C e per micro-batch and boundary (Megatron 2021, 3.2)"};
}

}  // namespace

std::vector<PaperTraffic> paper_traffic(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  std::vector<PaperTraffic> largest;
  const auto raise = [&](const PaperTraffic& one) {
    const auto same = [&](const PaperTraffic& other) { return other.axis == one.axis; };
    const auto found = std::find_if(largest.begin(), largest.end(), same);
    if (found == largest.end()) {
      largest.push_back(one);
    } else {
      found->moved = std::max(found->moved, one.moved);
    }
  };
  for (const int stage : stages_to_count(config)) {
    const PlannedPart part(config, stage);
    if (parallel.dp * parallel.cp > 1) raise(data_parallel(config, part));
    if (parallel.tp > 1) raise(tensor_parallel(config, part));
    if (parallel.pp > 1) raise(pipeline_parallel(part));
  }
  return largest;
}

}  // namespace cohort
