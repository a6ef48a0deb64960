// `cohort report`: one page of one run or of several. One process, no MPI.
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/version.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "plan/traffic.hpp"
#include "report/comparison.hpp"
#include "report/csv_export.hpp"
#include "report/report_page.hpp"
#include "report/traced_part.hpp"
#include "runtime/failure_exit.hpp"
#include "train/counted_step.hpp"
#include "train/estimate.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out = "report.html";
  std::string csv;
  bool overwrite = false;
};

// The run's memory and traffic as `cohort plan` gives them; of a run file that cannot be read any more, why.
ordered_json planned_of(const RunRecord& run) {
  ordered_json planned;
  if (run.run_file.empty()) return planned;
  try {
    RunConfig config = parse_saved_run_file(run.run_file, (run.folder / "run.toml").string());
    const ParallelSection& parallel = config.parallel;
    validate(config, parallel.dp * parallel.pp * parallel.cp * parallel.tp, {.cuda = true});
    const std::vector<CountedStep> stages = count_stages(config);
    const LargestMemory memory = largest_memory(stages);
    const MemoryEstimate& kinds = memory.kinds;
    planned["memory_plan"] = ordered_json::array();
    for (const auto& [kind, bytes] : {std::pair{"parameters", kinds.parameters},
                                      {"gradients", kinds.gradients},
                                      {"optimizer", kinds.optimizer},
                                      {"activations", kinds.activations},
                                      {"buffers", kinds.buffers},
                                      {"all", memory.total}})
      planned["memory_plan"].push_back({kind, bytes});
    planned["traffic"] = ordered_json::array();
    for (const Traffic& traffic : predict_traffic(stages)) {
      planned["traffic"].push_back({{"group", traffic.group},
                                    {"operation", traffic.operation},
                                    {"purpose", traffic.purpose},
                                    {"ranks", traffic.ranks},
                                    {"calls", traffic.calls},
                                    {"given", traffic.bytes},
                                    {"moved", traffic.moved()}});
    }
    planned["plan_note"] = "Bytes of one step on the rank that needs, or sends, most; `cohort plan` explains them.";
  } catch (const Error& error) {
    planned["plan_note"] = fmt::format("Not known: {}", error.what());
  }
  return planned;
}

int write_csv_files(const ReportOptions& options) {
  if (options.runs.size() > 1) fail(ExitCode::usage, "--csv takes one run, and {} are named", options.runs.size());
  const std::filesystem::path run = options.runs.front(), folder = options.csv;
  const std::vector<CsvFile> files = csv_files(run);
  for (const CsvFile& file : files) output_file("--csv", folder / file.name, options.overwrite);
  make_folders(folder);
  for (const CsvFile& file : files) {
    const std::filesystem::path to = output_file("--csv", folder / file.name, options.overwrite);
    std::vector<std::string> notes;
    write_csv(run, file, to, notes);
    for (const std::string& note : notes) print_error_line("note: " + note);
    fmt::print("{}\n", to.string());
  }
  return 0;
}

int write_report(const ReportOptions& options) {
  if (!is_printing_rank()) return 0;
  if (!options.csv.empty()) return write_csv_files(options);
  const std::filesystem::path out = output_file("--out", options.out, options.overwrite);
  std::vector<RunRecord> runs;
  for (const std::string& folder : options.runs) runs.push_back(read_run_record(folder));
  tell_names_apart(runs);
  std::vector<ordered_json> reports;
  for (const RunRecord& run : runs) {
    ordered_json more = traced_part(run.folder);
    more.update(planned_of(run));
    reports.push_back(report_of(run, more));
  }
  const std::string page = report_page(reports, cohort_version());
  write_file_atomically(out, page);
  fmt::print("{}: {}, {}\n", out.string(), counted(static_cast<Count>(reports.size()), "run"),
             human_bytes(static_cast<Bytes>(page.size())));
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("report", "One page of a run, or of several beside each other");
  command->footer(
      "Writes one HTML file that needs nothing else, no network either: curves of loss, learning rate, gradient norm, speed and\n"
      "memory against steps, tokens or time; where the time goes; ranks beside each other; checkpoints, samples, the run file; "
      "and\n"
      "what stands out, such as spikes and slow ranks. A run that is still under way is shown up to its last step.\n"
      "\n"
      "Examples:\n"
      "  cohort report runs/demo                               writes report.html\n"
      "  cohort train inputs/demo.toml --set run.name=calm --set optimizer.learning_rate=1e-3\n"
      "  cohort report runs/demo runs/calm --out both.html     curves of two runs in each picture\n"
      "  cohort report runs/demo --csv demo-csv                steps.csv, ranks.csv and layers.csv in a folder, and no page");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("run", options->runs, "Folders of runs")->required()->type_name("RUN");
  auto* out = command->add_option("--out", options->out, "The page")->type_name("FILE")->capture_default_str();
  command->add_option("--csv", options->csv, "Write the metrics as CSV into this folder instead: by step, by rank, by layer")
      ->type_name("FOLDER")
      ->excludes(out);
  add_overwrite_option(*command, options->overwrite, "the page, or the CSV files");
  command->callback([&action, options] { action = [options] { return write_report(*options); }; });
}

}  // namespace cohort
