// `cohort plan`: what a run will do, worked out without running it: the schedule of its pipeline; and what a DeepSpeed
// configuration says in Cohort's words.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/plan_schedule.hpp"
#include "config/deepspeed.hpp"
#include "runtime/ending.hpp"

namespace cohort {
namespace {

constexpr const char* kFooter =
    "A pipeline of S stages has each rank hold 1/S of the layers and sends M micro-batches through it. While the first "
    "micro-batch\n"
    "runs in and the last one runs out, ranks have nothing to do: the bubble, (S-1)/(M+S-1) of the time if all stages are "
    "equal.\n"
    "  gpipe        all forwards, then all backwards; a rank keeps the activations of M micro-batches\n"
    "  1f1b         one forward, one backward in turns: the same bubble, but at most S micro-batches' activations\n"
    "  interleaved  1f1b with V chunks of layers a rank: the bubble is (S-1)/(VM+S-1), with V times the messages; M is a "
    "multiple\n"
    "               of S\n"
    "\n"
    "Examples:\n"
    "  cohort plan --schedule gpipe --stages 4 --micro-batches 8         where is the bubble?\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 8          the same bubble; compare the column 'in flight'\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 32         and with more micro-batches?\n"
    "  cohort plan --schedule interleaved --chunks 2 --stages 4 --micro-batches 8 --svg pipeline.svg\n"
    "                                                                    a picture; and when messages take --transfer-ms 0.5?\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 8 --stage-costs 1,1,1,2\n"
    "                                                                    one slow stage (a loss over a large vocabulary): who "
    "waits?\n"
    "  cohort plan --deepspeed ds_config.json > run.toml                 a DeepSpeed configuration as a run file";

void require(const CLI::App& command, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (command.get_option(name)->count() == 0) missing.push_back(name);
  }
  if (!missing.empty()) {
    fail(ExitCode::usage, "{} missing: `cohort plan --schedule 1f1b --stages 4 --micro-batches 8` draws a pipeline; see --help",
         join(missing, " and "));
  }
}

int show_deepspeed(const std::string& path) {
  const DeepSpeedImport import = import_deepspeed(read_file(path, "DeepSpeed configuration"), path);
  if (is_speaking_rank()) fmt::print("{}", to_run_file(import));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("plan", "Work out what a run will do before it runs: the timeline of its pipeline");
  command->footer(kFooter);
  const auto options = std::make_shared<PlanScheduleOptions>();
  command->add_option("--schedule", options->schedule, "Pipeline schedule: gpipe, 1f1b or interleaved");
  command->add_option("--stages", options->stages, "S: ranks of the pipeline");
  command->add_option("--micro-batches", options->micro_batches, "M: micro-batches of one optimizer step");
  command->add_option("--chunks", options->chunks, "V: chunks of layers a rank, 2 or more with interleaved, else 1")
      ->capture_default_str();
  command->add_option("--forward-ms", options->forward_ms, "Forward of one micro-batch through one rank's layers")
      ->capture_default_str();
  command->add_option("--backward-ms", options->backward_ms, "Backward of the same")->capture_default_str();
  command->add_option("--transfer-ms", options->transfer_ms, "One message between two ranks; overlaps with work")
      ->capture_default_str();
  command
      ->add_option("--stage-costs", options->stage_costs,
                   "Factors of both times for consecutive parts of the model: S numbers, or S x V with interleaved")
      ->delimiter(',');
  command->add_option("--svg", options->svg, "Draw the timeline into this file as well");
  command->add_option("--width", options->width, "Columns of the text")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON: figures and the times of all actions");
  const auto deepspeed = std::make_shared<std::string>();
  command->add_option("--deepspeed", *deepspeed, "Read a DeepSpeed configuration (JSON) and show it as a run file");
  command->callback([&action, command, options, deepspeed] {
    action = [command, options, deepspeed] {
      if (!deepspeed->empty()) return show_deepspeed(*deepspeed);
      require(*command, {"--schedule", "--stages", "--micro-batches"});
      return plan_schedule(*options);
    };
  });
}

}  // namespace cohort
