#include "commands/plan/machine_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "plan/memory.hpp"
#include "train/estimate.hpp"

namespace cohort {
namespace {

std::string milliseconds(double seconds) { return fmt::format("{:.4g} ms", 1e3 * seconds); }

// What a rank would hold by itself.
std::string words_of_memory(const MachinePlan& plan) {
  const PredictedMemory alone = predict_memory(plan.reference);
  Bytes state = 0;
  for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer}) state += alone.kinds[kind];
  std::string text = fmt::format(
      "Memory: weights, gradients and optimizer state take {:.3g} bytes a parameter, {} in all; a micro-batch of {} keeps {} of "
      "activations on an undivided model.",
      static_cast<double>(state) / static_cast<double>(plan.parameters), human_bytes(state),
      counted(plan.reference.train.micro_batch, "sample"), human_bytes(alone.kinds[MemoryKind::activations]));
  if (plan.machine.memory == 0) return text;
  return text + fmt::format(" A rank can use {}: {}.", human_bytes(plan.machine.memory),
                            alone.total <= plan.machine.memory ? "the whole model fits on one" : "ranks have to divide it");
}

std::string words_of_best(const MachinePlan& plan) {
  const Suggestion& best = plan.best();
  const TrainSection& train = best.layout.config.train;
  std::string text =
      fmt::format("Layout: {}. {}, {} per step on each rank; it takes {} of {}", best.layout.name,
                  batch_arithmetic(best.layout.config), counted(train.accumulation, "micro-batch", "micro-batches"),
                  human_bytes(best.memory), plan.machine.memory > 0 ? human_bytes(plan.machine.memory) : "memory");
  if (plan.machine.profile.device == DeviceKind::gpu && best.host > 0)
    text +=
        fmt::format(", and the ranks of a node {} of {}", human_bytes(best.host),
                    plan.machine.host_memory > 0 ? human_bytes(plan.machine.host_memory) + " of host memory"
                                                 : "host memory, of which it is not known how much there is (--host-memory-gib)");
  if (plan.found.fitting.size() > 1) {
    const Suggestion& next = plan.found.fitting[1];
    text += fmt::format("; the next best, {}, is {:.1f} % slower", next.layout.name,
                        100.0 * (next.time.seconds / best.time.seconds - 1.0));
  }
  return text + ".";
}

// The best of each way to divide, where it is not the best of all: its time and where that goes, or why there is none.
std::string words_of_others(const MachinePlan& plan) {
  const auto parallel = [](const Suggestion& one) -> const ParallelSection& { return one.layout.config.parallel; };
  const auto plain = [](const ParallelSection& p) { return p.pp == 1 && p.tp == 1 && p.cp == 1; };
  const std::pair<const char*, std::function<bool(const ParallelSection&)>> ways[] = {
      {"plain data parallelism", [&](const ParallelSection& p) { return plain(p) && p.data == "bucketed"; }},
      {"ZeRO-1", [&](const ParallelSection& p) { return plain(p) && p.data == "zero1"; }},
      {"ZeRO-3", [&](const ParallelSection& p) { return plain(p) && p.data == "zero3"; }},
      {"tensor parallelism", [](const ParallelSection& p) { return p.tp > 1; }},
      {"a pipeline", [](const ParallelSection& p) { return p.pp > 1; }},
      {"context parallelism", [](const ParallelSection& p) { return p.cp > 1; }}};
  std::vector<std::string> words;
  for (const auto& [name, fits] : ways) {
    const auto is = [&, way = fits](const Suggestion& one) { return way(parallel(one)); };
    if (is(plan.best())) continue;
    const auto found = std::find_if(plan.found.fitting.begin(), plan.found.fitting.end(), is);
    const auto large = std::find_if(plan.found.too_large.begin(), plan.found.too_large.end(), is);
    if (found != plan.found.fitting.end()) {
      words.push_back(fmt::format("{} at best {} ({}: {})", name, milliseconds(found->time.seconds), found->layout.name,
                                  words_of_split(found->time.split)));
    } else if (large != plan.found.too_large.end()) {
      words.push_back(fmt::format("{} does not fit (it needs {})", name, large->lacks));
    }
  }
  if (const Count batch = plan.reference.train.global_batch; batch % plan.ranks != 0)
    words.push_back(fmt::format("data parallelism alone needs a global batch that is a multiple of {} (train.global_batch is {})",
                                plan.ranks, batch));
  return words.empty() ? "" : "Other ways: " + join(words, "; ") + ".";
}

std::string words_of_step(const MachinePlan& plan) {
  const StepTime& time = plan.best().time;
  std::string text = fmt::format("Step: {}, {} tokens/s in all, {} a rank", milliseconds(time.seconds),
                                 human_count(plan.tokens_per_second()), human_count(plan.tokens_per_second() / plan.ranks));
  if (plan.mfu) text += fmt::format(", {:.1f} % MFU", 100.0 * *plan.mfu);
  return text + fmt::format("; {}.", words_of_split(time.split));
}

// The first point that is below a share, and the last.
std::string words_of_scaling(const MachinePlan& plan) {
  constexpr double kGood = 0.9;
  const std::vector<ScalingPoint>& weak = plan.curve.weak;
  const auto below = std::find_if(weak.begin(), weak.end(), [](const ScalingPoint& one) { return one.efficiency < kGood; });
  const ScalingPoint& last = weak.back();
  std::string text =
      fmt::format("Scaling, with as many samples a rank: at {} efficiency is {:.0f} % of that at {} ({})",
                  counted(last.ranks, "rank"), 100.0 * last.efficiency, weak.front().ranks, words_of_split(last.time.split));
  text += below == weak.end() ? "; it stays above 90 % all the way."
                              : fmt::format("; it falls below 90 % at {}.", counted(below->ranks, "rank"));
  const std::vector<ScalingPoint>& strong = plan.curve.strong;
  if (strong.empty()) return text;
  const auto fastest = std::max_element(strong.begin(), strong.end(), [](const ScalingPoint& a, const ScalingPoint& b) {
    return a.tokens_per_second < b.tokens_per_second;
  });
  return text + fmt::format(
                    " With the global batch of {} fixed, {} are the most that help ({:.0f} % efficiency): to use more, raise "
                    "train.global_batch and the rate with it (optimizer.rate_scaling).",
                    counted(plan.reference.train.global_batch, "sample"), counted(fastest->ranks, "rank"),
                    100.0 * fastest->efficiency);
}

std::string words_of_cost(const MachinePlan& plan) {
  std::string text = fmt::format("Cost: {} tokens take {:.3g} days and {:.0f} GPU-hours, failures included",
                                 human_count(plan.tokens), plan.days(), plan.gpu_hours());
  if (plan.price > 0.0) return text + fmt::format(": {:.0f} at {:g} a GPU-hour.", plan.price * plan.gpu_hours(), plan.price);
  return text + " (--price gives the cost).";
}

std::string words_of_failures(const MachinePlan& plan) {
  const Goodput& goodput = plan.goodput;
  return fmt::format(
      "Failures: with one in {:.0f} hours of a GPU (--failure-hours) the job fails every {}; if saving takes {:.3g} s and a "
      "restart {:.3g} s, save every {}: {:.1f} % of the time becomes training (Young 1974, Daly 2006).",
      plan.failures.rank_seconds / 3600.0, human_seconds(goodput.failure_seconds), plan.failures.save_seconds,
      plan.failures.restart_seconds, human_seconds(goodput.interval_seconds), 100.0 * goodput.share);
}

}  // namespace

std::string words_of_machine(const MachinePlan& plan) {
  const MachineProfile& profile = plan.machine.profile;
  const bool gpus = profile.device == DeviceKind::gpu;
  std::string text =
      fmt::format("{}, {} parameters, {}, on {} ({}, {} a node): {}", plan.reference.model.kind,
                  human_count(static_cast<double>(plan.parameters)), plan.reference.precision.policy,
                  counted(plan.ranks, gpus ? "GPU" : "rank"), profile.name, plan.machine.ranks_per_node, profile.basis);
  if (profile.measured) return text + ".";
  const bool fp8 = plan.reference.precision.policy == "fp8";
  return text + fmt::format(
                    "; matrix products in 16 bits at {:.4g} TFLOP/s{}, memory at {:.4g} GB/s, links at {:.4g} GB/s inside a node "
                    "and {:.4g} GB/s a rank between nodes.",
                    1e-12 * profile.rates.sixteen_bits,
                    fp8 ? fmt::format(" and in 8 bits at {:.4g}", 1e-12 * profile.rates.eight_bits) : "",
                    1e-9 * profile.rates.bytes_per_second, 1e-9 * profile.node.bytes_per_second,
                    1e-9 * profile.network.bytes_per_second);
}

std::vector<std::string> explanation(const MachinePlan& plan) {
  std::vector<std::string> paragraphs{words_of_memory(plan),  words_of_best(plan), words_of_others(plan),  words_of_step(plan),
                                      words_of_scaling(plan), words_of_cost(plan), words_of_failures(plan)};
  std::erase(paragraphs, "");
  return paragraphs;
}

}  // namespace cohort
