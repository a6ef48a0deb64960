#include "plan/scaling_curve.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/error.hpp"
#include "config/model_rules.hpp"

namespace cohort {
namespace {

// In the words of layout_from_words().
std::string words_with(const ParallelSection& p, int dp) {
  std::string words = fmt::format("dp={},pp={},cp={},tp={},data={}", dp, p.pp, p.cp, p.tp, p.data);
  if (p.sequence) words += ",sequence=true";
  if (p.tensor_overlap) words += ",tensor_overlap=true";
  if (p.pp > 1) words += ",schedule=" + p.schedule;
  if (p.chunks > 1) words += fmt::format(",chunks={}", p.chunks);
  const Count replicas = dp * p.cp;
  if (p.shard_ranks > 0 && p.shard_ranks < replicas && replicas % p.shard_ranks == 0)
    words += fmt::format(",shard_ranks={}", p.shard_ranks);
  return words;
}

// Nothing if the run refuses the layout or it does not fit.
std::optional<ScalingPoint> point_of(const RunConfig& run, const std::string& words, int ranks, const PlannedMachine& machine) {
  try {
    const Suggestion one = weigh_layout(layout_from_words(run, words, ranks), machine);
    if (one.time.seconds == 0.0) return std::nullopt;
    const RunConfig& config = one.layout.config;
    const auto units = static_cast<double>(config.train.global_batch * units_per_sample(config.model));
    return ScalingPoint{.ranks = ranks,
                        .global_batch = config.train.global_batch,
                        .memory = one.memory,
                        .time = one.time,
                        .tokens_per_second = units / one.time.seconds};
  } catch (const Error& error) {
    if (error.code() != ExitCode::config) throw;
    return std::nullopt;
  }
}

void set_efficiency(std::vector<ScalingPoint>& points) {
  for (ScalingPoint& point : points) {
    const ScalingPoint& first = points.front();
    point.efficiency = point.tokens_per_second / point.ranks / (first.tokens_per_second / first.ranks);
  }
}

}  // namespace

ScalingCurve scaling_curve(const RunConfig& run, const Suggestion& best, const PlannedMachine& machine) {
  const RunConfig& config = best.layout.config;
  RunConfig reference = run;
  reference.model.activation_offload = config.model.activation_offload;
  reference.model.activation_checkpointing = config.model.activation_checkpointing;
  reference.model.checkpointed_layers = config.model.checkpointed_layers;
  const auto of_replica = static_cast<int>(config.parallel.pp * config.parallel.cp * config.parallel.tp);
  std::set<int> replicas{static_cast<int>(config.parallel.dp)};
  for (int dp = 1; dp * of_replica <= kMostRanksOfScaling; dp *= 2) replicas.insert(dp);
  ScalingCurve curve;
  for (const int dp : replicas) {
    const std::string words = words_with(config.parallel, dp);
    RunConfig grown = reference;
    grown.train.micro_batch = config.train.micro_batch;
    grown.train.global_batch = config.train.micro_batch * config.train.accumulation * dp;
    if (const auto point = point_of(grown, words, dp * of_replica, machine)) curve.weak.push_back(*point);
    if (const auto point = point_of(reference, words, dp * of_replica, machine)) curve.strong.push_back(*point);
  }
  COHORT_CHECK(!curve.weak.empty(), "the layout {} does not fit itself", best.layout.name);
  set_efficiency(curve.weak);
  set_efficiency(curve.strong);
  return curve;
}

}  // namespace cohort
