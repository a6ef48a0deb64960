// `cohort trace show`: what a trace says, on the terminal. One process, no MPI.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/open_world.hpp"
#include "observe/timers.hpp"
#include "report/trace_record.hpp"
#include "rundir/trace_files.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

fs::path trace_of(const std::string& named) {
  std::error_code error;
  if (!fs::is_directory(named, error)) return named;
  const std::vector<fs::path> files = trace_files(named);
  if (files.empty()) fail(ExitCode::io, "{} has no trace: train with --trace steps=10-12 to write one", named);
  return files.back();
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

// Seconds a step of one kind: the mean over the ranks, the least and the most.
struct Spread {
  double sum = 0.0, least = 0.0, most = 0.0;
  std::size_t most_rank = 0;
};

template <class Of>
Spread spread_of(const TraceRecord& trace, const Of& of) {
  Spread spread{0.0, of(trace.ranks.front()), of(trace.ranks.front()), 0};
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const double value = of(trace.ranks[rank]);
    spread.sum += value;
    spread.least = std::min(spread.least, value);
    if (value > spread.most) spread.most_rank = rank;
    spread.most = std::max(spread.most, value);
  }
  return spread;
}

std::string times_table(const TraceRecord& trace) {
  Table table({"seconds a step", "mean", "share", "least", "most", "rank"});
  const auto steps = static_cast<double>(trace.steps()), ranks = static_cast<double>(trace.ranks.size());
  const double all = spread_of(trace, [](const TracedRankTimes& rank) { return rank.seconds; }).sum;
  const auto add = [&](const std::string& name, const Spread& spread) {
    if (spread.most <= 0.0) return;
    table.add({name, fmt::format("{:.4f}", spread.sum / ranks / steps), percent(spread.sum / all),
               fmt::format("{:.4f}", spread.least / steps), fmt::format("{:.4f}", spread.most / steps),
               fmt::format("{}", spread.most_rank)});
  };
  std::vector<std::string> names;
  for (const Phase phase : kPhases) names.emplace_back(name_of(phase));
  names.emplace_back("other");
  for (const std::string& name : names) {
    add(name, spread_of(trace, [&](const TracedRankTimes& rank) {
          const auto found = rank.phases.find(name);
          return found == rank.phases.end() ? 0.0 : found->second;
        }));
  }
  add("kernels on the GPU", spread_of(trace, [](const TracedRankTimes& rank) { return rank.kernels; }));
  add("exposed communication", spread_of(trace, [](const TracedRankTimes& rank) { return rank.exposed; }));
  add("all", spread_of(trace, [](const TracedRankTimes& rank) { return rank.seconds; }));
  return table.str();
}

std::string operations_table(const TraceRecord& trace) {
  Table table({"group", "operation", "ranks", "calls/step", "bytes/step", "ms a call", "exposed"});
  double training = 0.0;
  for (const TracedRankTimes& rank : trace.ranks) training += rank.training;
  for (const TracedOperations& o : trace.operations) {
    const double rank_steps = std::max(1.0, static_cast<double>(o.callers) * static_cast<double>(trace.steps()));
    table.add({o.group, o.operation, fmt::format("{}", o.ranks), fmt::format("{:.3g}", static_cast<double>(o.calls) / rank_steps),
               human_bytes(static_cast<Bytes>(static_cast<double>(o.bytes) / rank_steps)),
               fmt::format("{:.3f}", o.calls > 0 ? 1e3 * o.seconds / static_cast<double>(o.calls) : 0.0),
               percent(training > 0.0 ? o.exposed / training : 0.0)});
  }
  return table.str(2);
}

int show_trace(const std::string& named) {
  if (!is_printing_rank()) return 0;
  const TraceRecord trace = read_trace_record(trace_of(named));
  if (trace.ranks.empty()) fail(ExitCode::io, "{} has no ranks", trace.file.string());
  const std::string steps = trace.steps() == 1 ? fmt::format("step {}", trace.first_step)
                                               : fmt::format("steps {}-{}", trace.first_step, trace.last_step);
  fmt::print("{}: {} of {}, {}, {}, {}; clocks agree to {:.1f} us\n", trace.file.string(), steps, trace.run,
             counted(trace.rank_count, "rank"), trace.layout, trace.strategy, 1e6 * trace.clock_error);
  if (!trace.kernels.empty()) fmt::print("kernels: {}\n", trace.kernels);
  fmt::print("{}", times_table(trace));
  if (!trace.operations.empty()) fmt::print("{}", operations_table(trace));
  if (trace.ranks.size() > 1) {
    const Spread own = spread_of(trace, [](const TracedRankTimes& rank) { return rank.own_work(); });
    fmt::print("\nrank {} ({}) worked longest itself: {:.4f} s a step, where the mean is {:.4f} s\n", own.most_rank,
               trace.ranks[own.most_rank].label, own.most / static_cast<double>(trace.steps()),
               own.sum / static_cast<double>(trace.ranks.size()) / static_cast<double>(trace.steps()));
  }
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("trace", "What a trace says: where the time of traced steps went");
  command->require_subcommand(1);
  auto* show = command->add_subcommand("show", "Time by kind, exposed communication by group, and the rank that works longest");
  show->footer(
      "Traces are written by `cohort train --trace steps=10-12`, and open in ui.perfetto.dev; `cohort report` draws the timeline "
      "of\n"
      "one of their steps.\n"
      "\n"
      "Examples:\n"
      "  cohort train inputs/lab02_mlp.toml --set run.name=traced --trace steps=10-12\n"
      "  cohort trace show runs/traced                         the newest trace of a run\n"
      "  cohort trace show runs/traced/trace.json              this one");
  const auto named = std::make_shared<std::string>();
  show->add_option("trace", *named, "A run's folder, or a file")->required()->type_name("RUN|FILE");
  show->callback([&action, named] { action = [named] { return show_trace(*named); }; });
}

}  // namespace cohort
