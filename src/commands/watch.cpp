// `cohort watch`: a run as it is now, again and again. One process, no MPI.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "observe/progress.hpp"
#include "report/run_tail.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/signals.hpp"

namespace cohort {
namespace {

constexpr int kMostCurveCells = 60, kLabels = 16;  // columns
constexpr double kQuietAfterSteps = 20.0;          // times a step's time without a record: the run may have ended, or hang

struct WatchOptions {
  std::string run;
  double every = 1.0;
  bool once = false;
};

double seconds_since_1970() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return 1e-3 * static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

// Of the run file what the screen needs; a run file that is not there is no reason to show nothing.
struct Facts {
  Count steps = 0;  // 0: unknown
  std::string unit = "tokens";
};

Facts facts_of(const std::filesystem::path& folder) {
  try {
    const std::filesystem::path file = folder / "run.toml";
    const RunConfig config = parse_saved_run_file(read_file(file), file.string());
    return {config.train.steps, std::string(units_name(config.model))};
  } catch (const Error&) {
    return {};
  }
}

// False if the user wants no more. In pieces, since a signal does not end a sleep.
bool slept(double seconds) {
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kPiece(0.1);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto end = now() + Seconds(seconds);
  while (now() < end && !stop_requested()) std::this_thread::sleep_for(std::min(kPiece, Seconds(end - now())));
  return !stop_requested();
}

std::string screen_of(const std::string& run, const Facts& facts, const RunTail& tail, bool utf8) {
  const LatestFigures& f = tail.latest();
  Table table({"", ""});
  const std::string of_all = facts.steps > 0 ? fmt::format(" of {} ({:.0f} %)", facts.steps,
                                                           100.0 * static_cast<double>(f.step) / static_cast<double>(facts.steps))
                                             : "";
  table.add({"step", fmt::format("{}{}", std::max<Count>(f.step, 0), of_all)});
  table.add({"loss", fmt::format("{:.4f}", f.loss)});
  if (utf8) table.add({"", sparkline(tail.curve())});
  if (f.validated_at >= 0)
    table.add({"validation",
               fmt::format("{:.4f} at step {}, lowest {:.4f}", f.validation_loss, f.validated_at, f.lowest_validation_loss)});
  table.add({"learning rate", fmt::format("{:.3g}", f.learning_rate)});
  table.add({"gradient norm", fmt::format("{:.4g}", f.gradient_norm)});
  table.add({"speed", fmt::format("{} {}/s, {:.3g} s per step{}", human_count(f.rate), facts.unit, f.step_seconds,
                                  f.mfu >= 0.0 ? fmt::format(", MFU {:.1f} %", 100.0 * f.mfu) : "")});
  if (f.memory > 0) table.add({"memory", fmt::format("{} on the rank that uses most", human_bytes(f.memory))});
  if (f.slowest_rank >= 0) table.add({"slowest rank", fmt::format("{}, {:.2f} times the median", f.slowest_rank, f.slowest_by)});
  const std::vector<StoredCheckpoint> stored = list_checkpoints(run);
  table.add(
      {"checkpoints", stored.empty() ? "none yet" : fmt::format("{}, the newest of step {}", stored.size(), stored.back().step)});
  if (facts.steps > f.step) table.add({"ETA", human_seconds(f.step_seconds * static_cast<double>(facts.steps - f.step))});
  const double silent = f.time > 0.0 ? seconds_since_1970() - f.time : 0.0;
  if (facts.steps > 0 && f.step >= facts.steps) {
    table.add({"state", "completed"});
  } else if (silent > std::max(10.0, kQuietAfterSteps * f.step_seconds)) {
    table.add({"state", fmt::format("no step for {}: is it running? cohort doctor {}", human_seconds(silent), run)});
  } else {
    table.add({"state", "running"});
  }
  return run + table.str(/*right_from=*/2);  // whose first line is empty
}

int watch_run(const WatchOptions& options) {
  if (!is_printing_rank()) return 0;
  RunTail tail(options.run, static_cast<std::size_t>(std::clamp(terminal_columns() - kLabels, 10, kMostCurveCells)));
  const Facts facts = facts_of(options.run);
  const bool terminal = stdout_is_terminal();
  install_stop_signals();
  std::ptrdiff_t drawn = 0;  // lines
  tail.read_new();
  for (;;) {
    const std::string screen = screen_of(options.run, facts, tail, locale_has_utf8());
    if (terminal && drawn > 0) fmt::print("\x1b[{}A\x1b[J", drawn);  // back to the first line, and clear from there
    fmt::print("{}{}", screen, terminal || options.once ? "" : "\n");
    flush_console();
    drawn = std::count(screen.begin(), screen.end(), '\n');
    const bool completed = facts.steps > 0 && tail.latest().step >= facts.steps;
    if (options.once || completed) return 0;
    do {
      if (!slept(options.every)) return 0;
    } while (!tail.read_new() && !terminal);  // a pipe gets a screen for each change, a terminal one that also tells of silence
  }
}

}  // namespace

void add_watch_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("watch", "A run as it is now: loss, speed, memory, time left");
  command->footer(
      "Reads what the run writes, so it can be used from any node that sees the run's folder, and by anybody who may read it. "
      "Ends\n"
      "when the run is completed, or with Ctrl-C, which does nothing to the run.\n"
      "\n"
      "Examples:\n"
      "  cohort watch runs/demo\n"
      "  cohort watch runs/demo --once                         once, as for a script");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("run", options->run, "The run's folder")->required()->type_name("RUN");
  command->add_option("--every", options->every, "Seconds between two looks")
      ->check(number_from(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--once", options->once, "Look once");
  command->callback([&action, options] { action = [options] { return watch_run(*options); }; });
}

}  // namespace cohort
