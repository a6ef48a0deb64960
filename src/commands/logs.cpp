// `cohort logs`: the logs of all ranks as one, in the order of time. Starts neither MPI nor Kokkos, so it works on a login node
// while the run goes on; under a launcher rank 0 alone prints.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/console.hpp"
#include "base/error.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "logs/view.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/signals.hpp"

namespace cohort {
namespace {

struct LogsOptions {
  std::string run, ranks, since, until, pattern, level = "debug";
  Count last = -1;
  bool fold = false, follow = false;
};

LogViewOptions view_of(const LogsOptions& options) {
  LogViewOptions view{.run = options.run, .fold = options.fold, .follow = options.follow};
  if (!view.run.has_filename()) view.run = view.run.parent_path();  // "runs/demo/"
  const std::int64_t now = now_milliseconds();
  LogSelection& selection = view.selection;
  if (!options.ranks.empty()) selection.ranks = parse_rank_ranges(options.ranks, "--rank");
  if (!options.since.empty()) selection.since = parse_time_or_step(options.since, "--since", now);
  if (!options.until.empty()) selection.until = parse_time_or_step(options.until, "--until", now);
  if (!options.pattern.empty()) selection.pattern = std::make_shared<Pattern>(options.pattern, "--grep");
  selection.level = log_level_from_name(options.level);
  if (options.last >= 0) view.last = options.last;
  if (options.follow && selection.until) {
    fail(ExitCode::usage, "--follow runs until interrupted, --until stops earlier; give only one");
  }
  return view;
}

int run_logs(const LogsOptions& options) {
  if (!is_printing_rank()) return 0;
  const LogViewOptions view = view_of(options);
  if (view.follow) install_stop_signals();
  const auto print = [&](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (view.follow) flush_console();
  };
  show_logs(view, print, [] { return stop_requested(); });
  flush_console();
  return 0;
}

}  // namespace

void add_logs_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("logs", "Show the logs of all ranks as one, in order of time");
  command->footer(
      "Each rank of a job writes RUN/logs/rank_N/train.log, and the console is rank 0's. This command merges them by their\n"
      "UTC timestamps, which are as good as the nodes' clocks. Messages of several lines stay together. Logs may be long\n"
      "and many: they are read block by block, and one file at a time is open.\n"
      "\n"
      "--since and --until take a step (step:100: from a rank's first message about step 100 or later, until its first about a\n"
      "later one), a time in UTC (2025-03-01T12:00), or how long ago (90s, 10m, 2h, 1d).\n"
      "\n"
      "Examples:\n"
      "  cohort logs runs/demo --last 20                         how did it end?\n"
      "  cohort logs runs/demo --rank 0,2-3 --since step:100     these ranks, from step 100 on\n"
      "  cohort logs runs/demo --level warning                   what needs attention, such as slow ranks\n"
      "  cohort logs runs/demo --grep 'saved|stopping' --fold    one line for a message of many ranks\n"
      "  cohort logs runs/demo --follow --last 0                 new messages only, until Ctrl-C");
  auto options = std::make_shared<LogsOptions>();
  command->add_option("run", options->run, "the run's folder")->required();
  command->add_option("--rank", options->ranks, "these ranks: 2, 0,3 or 2,4-7 (default: all)");
  command->add_option("--since", options->since, "from here on: step:100, 2025-03-01T12:00 or 10m");
  command->add_option("--until", options->until, "up to here, inclusive");
  command->add_option("--grep", options->pattern, "messages that match this regular expression (as for grep -E)");
  command->add_option("--level", options->level, "messages of this level or above: debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command->add_option("--last", options->last, "the last N of these messages")->check(integer_from(0));
  command->add_flag("--fold", options->fold, "show once what several ranks logged within a second: \"ranks 0-3: ...\"");
  command->add_flag("--follow,-f", options->follow, "then wait for more, including new ranks, until Ctrl-C");
  command->callback([&action, options] { action = [options] { return run_logs(*options); }; });
}

}  // namespace cohort
