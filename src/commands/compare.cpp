// `cohort compare`: runs beside each other, and where they part. One process, no MPI.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/open_world.hpp"
#include "report/comparison.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

int compare_runs(const std::vector<std::string>& folders) {
  if (!is_printing_rank()) return 0;
  if (folders.size() < 2) fail(ExitCode::usage, "cohort compare: name two runs or more");
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) {
    runs.push_back(read_run_record(folder));
    for (const std::string& note : runs.back().notes) print_error_line(fmt::format("note: {}: {}", folder, note));
  }
  tell_names_apart(runs);
  fmt::print("{}\n", comparison_table(runs));
  const bool have_run_files = std::none_of(runs.begin(), runs.end(), [](const RunRecord& run) { return run.run_file.empty(); });
  if (have_run_files) {
    const std::vector<std::string> keys = differing_keys(runs);
    fmt::print("{}\n", keys.empty() ? "All settings are the same." : "Settings that differ:");
    for (const std::string& key : keys) fmt::print("  {}\n", key);
    fmt::print("\n");
  }
  for (std::size_t i = 1; i < runs.size(); ++i) fmt::print("{}\n", verdict_of(runs.front(), runs[i]));
  return 0;
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("compare", "Runs beside each other: figures, settings, and the step where they part");
  command->footer(
      "Losses are compared in each step that two runs have, to the last bit: runs of one layout and seed must not differ, those "
      "of\n"
      "other layouts differ by rounding, which training amplifies. The first run is compared with each of the others.\n"
      "\n"
      "Examples:\n"
      "  cohort train inputs/demo.toml --set run.name=calm --set optimizer.learning_rate=1e-3\n"
      "  cohort compare runs/demo runs/calm");
  auto folders = std::make_shared<std::vector<std::string>>();
  command->add_option("run", *folders, "Folders of runs, two or more")->required()->type_name("RUN");
  command->callback([&action, folders] { action = [folders] { return compare_runs(*folders); }; });
}

}  // namespace cohort
