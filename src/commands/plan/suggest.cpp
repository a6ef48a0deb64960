// `cohort plan RUN.toml --suggest`.
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/plan/run_costs.hpp"
#include "plan/suggest.hpp"
#include "runtime/failure_exit.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

// Lines for people; JSON has all.
constexpr std::size_t kMostLines = 20;
constexpr std::size_t kMostReasons = 5;

void print_text(const Suggestions& found, int ranks, Bytes most_memory, const RankSpeed& speed) {
  Table table({"layout", "micro-batch x accumulation", "memory", "moved", "bubble", "step"});
  for (std::size_t i = 0; i < std::min(found.fitting.size(), kMostLines); ++i) {
    const Suggestion& one = found.fitting[i];
    const TrainSection& train = one.layout.config.train;
    table.add({one.layout.name, fmt::format("{} x {}", train.micro_batch, train.accumulation), human_bytes(one.memory),
               human_bytes(one.moved), fmt::format("{:.1f} %", 100.0 * one.bubble), fmt::format("{:.4g} ms", 1e3 * one.seconds)});
  }
  fmt::print("{} of {} {}{}:\n{}", counted(static_cast<Count>(found.fitting.size()), "layout"), counted(ranks, "rank"),
             found.fitting.size() == 1 ? "fits" : "fit", most_memory > 0 ? " into " + human_bytes(most_memory) : "", table.str());
  if (found.fitting.size() > kMostLines)
    fmt::print("... and {} (--json lists all)\n",
               counted(static_cast<Count>(found.fitting.size() - kMostLines), "slower layout"));
  fmt::print(
      "memory: of the rank that needs the most; moved: bytes that it sends in a step; step: the work at {:.3g} TFLOP/s per\n"
      "rank, stretched by the bubble, and the messages at {:.3g} GB/s, as if nothing overlapped. A first guess:\n"
      "--measure the best.\n",
      1e-12 * speed.flops_per_second, 1e-9 * speed.bytes_per_second);
  if (found.refused.empty()) return;
  fmt::print("\nRefused for this run:\n");
  for (std::size_t i = 0; i < std::min(found.refused.size(), kMostReasons); ++i) fmt::print("  {}\n", found.refused[i]);
  if (found.refused.size() > kMostReasons)
    fmt::print("  ... and for {}\n", counted(static_cast<Count>(found.refused.size() - kMostReasons), "more reason"));
}

nlohmann::ordered_json to_json(const Suggestions& found) {
  nlohmann::ordered_json json{{"layouts", nlohmann::ordered_json::array()}, {"refused", found.refused}};
  for (const Suggestion& one : found.fitting) {
    const ParallelSection& p = one.layout.config.parallel;
    const TrainSection& train = one.layout.config.train;
    json["layouts"].push_back({{"layout", one.layout.name},
                               {"dp", p.dp},
                               {"pp", p.pp},
                               {"cp", p.cp},
                               {"tp", p.tp},
                               {"data", p.data},
                               {"micro_batch", train.micro_batch},
                               {"accumulation", train.accumulation},
                               {"memory", one.memory},
                               {"moved", one.moved},
                               {"bubble", one.bubble},
                               {"step_seconds", one.seconds}});
  }
  return json;
}

}  // namespace

int plan_suggest(const PlanRunOptions& options) {
  const RunConfig run = read_plan_file(options);
  const Count ranks = ranks_of_plan(options, run);
  if (ranks > std::numeric_limits<int>::max()) fail(ExitCode::usage, "--ranks {}: more than MPI can count", ranks);
  const RunConfig config = reference_config(run);
  const auto most_memory = static_cast<Bytes>(options.memory_gib * static_cast<double>(kGiB));
  const RankSpeed speed = usual_speed(device_of(config));
  const Suggestions found = suggest_layouts(config, static_cast<int>(ranks), most_memory, speed);
  if (found.fitting.empty()) {
    throw Error(ExitCode::config,
                found.least_memory > 0
                    ? fmt::format("no layout of {} fits into {}: the smallest needs {}; give more ranks, lower "
                                  "train.micro_batch or set model.activation_checkpointing = true",
                                  counted(ranks, "rank"), human_bytes(most_memory), human_bytes(found.least_memory))
                    : fmt::format("no layout of {} fits this run: {}", counted(ranks, "rank"), found.refused.front()));
  }
  if (!is_printing_rank()) return 0;
  if (options.json) {
    fmt::print("{}\n", to_json(found).dump(1));
  } else {
    print_text(found, static_cast<int>(ranks), most_memory, speed);
  }
  return 0;
}

}  // namespace cohort
