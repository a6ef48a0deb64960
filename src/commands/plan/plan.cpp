// `cohort plan`: what a run will do, worked out without running it: what it costs, and the schedule of its pipeline; and what a
// DeepSpeed configuration says in Cohort's words.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/override_options.hpp"
#include "commands/plan/draw_schedule.hpp"
#include "commands/plan/run_costs.hpp"
#include "config/deepspeed.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

constexpr const char* kPlanFooter =
    "With a run file: what the run costs each rank in its layout, next to the formulas of the ZeRO and Megatron papers.\n"
    "  memory       parameters, gradients and optimizer state follow from the number of parameters: 16 bytes each in all, fewer\n"
    "               where ranks share them (ZeRO, tensor and pipeline parallelism); activations grow with the micro-batch\n"
    "  messages     data parallelism sends each gradient once a step, whatever the batch; tensor and context parallelism send\n"
    "               activations in every layer of every micro-batch; a pipeline sends them only between stages\n"
    "  --measure    runs two steps in the layout, counts every tensor and every message, and fails if a prediction, of a part "
    "or\n"
    "               of the total, is off by more than 0.1 %\n"
    "  --suggest    all layouts of the ranks that fit into memory of GPUs and nodes, the fastest step first, and what each\n"
    "               waits for; with activations in host memory where it takes that, with parallel.tensor_overlap where it helps\n"
    "run.initial_checkpoint is not opened: it affects none of this.\n"
    "\n"
    "With --gpu NAME or --profile FILE: how to run on that machine. The step is counted op by op and collective by collective,\n"
    "and timed by a data sheet (estimates) or by what `cohort bench calibration` measured. In words and tables: the best layout\n"
    "and why, what does not fit, what a step spends its time on, scaling to 16,384 ranks, GPU-hours, how often to save.\n"
    "  cohort plan inputs/llama_8b.toml --gpu h100 --gpus 1024            how would you run this on 1,024 GPUs?\n"
    "  cohort plan inputs/llama_8b.toml --gpu a100 --gpus 64 --tokens 1e12 --price 1.5 --svg plan.svg\n"
    "                                                    and on 64 A100: what does it cost?\n"
    "\n"
    "The size of the vocabulary is that of the token file, or what is set. --measure trains on the token file; of the demo it\n"
    "is data/stories.h5, which `make stories` writes (`cohort train --help` has its commands):\n"
    "  cohort plan inputs/demo.toml --ranks 4 --set model.vocabulary=64 --set parallel.data=zero3\n"
    "                                                    what does ZeRO-3 save, and what does it send?\n"
    "  cohort plan inputs/gpt2_124m.toml --set model.vocabulary=50257 --gpus 64 --suggest --gpu h100\n"
    "  mpirun -np 4 cohort plan inputs/demo.toml --measure          do a few steps take what was predicted?\n"
    "\n"
    "With --schedule: the timeline of a pipeline. S stages hold 1/S of the layers each, and M micro-batches go through them.\n"
    "While the pipeline fills and drains, ranks are idle: the bubble, (S-1)/(M+S-1) of the time if all stages are equal.\n"
    "  gpipe        all forwards, then all backwards; a rank keeps the activations of M micro-batches\n"
    "  1f1b         one forward, one backward in turn: the same bubble, but at most S micro-batches' activations\n"
    "  interleaved  1f1b with V chunks of layers per rank: the bubble is (S-1)/(VM+S-1), with V times the messages; M is a\n"
    "               multiple of S\n"
    "\n"
    "  cohort plan --schedule gpipe --stages 4 --micro-batches 8         where is the bubble?\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 8          the same bubble; compare the column 'in flight'\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 32         and with more micro-batches?\n"
    "  cohort plan --schedule interleaved --chunks 2 --stages 4 --micro-batches 8 --svg pipeline.svg\n"
    "                                                                    a picture; and when messages take --transfer-ms 0.5?\n"
    "  cohort plan --schedule 1f1b --stages 4 --micro-batches 8 --stage-costs 1,1,1,2\n"
    "                                                                    one slow stage (a loss over a large vocabulary): who "
    "waits?\n"
    "\n"
    "With --deepspeed: your DeepSpeed configuration as a run file:\n"
    "  cohort plan --deepspeed ds_config.json > run.toml";

void require(const CLI::App& command, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (command.get_option(name)->count() == 0) missing.push_back(name);
  }
  if (!missing.empty()) {
    fail(
        ExitCode::usage,
        "{} missing: `cohort plan --schedule 1f1b --stages 4 --micro-batches 8` draws a pipeline, `cohort plan run.toml` plans a "
        "run; see --help",
        join(missing, " and "));
  }
}

// Options of one use that were given with another would be ignored.
void refuse_beside_run_file(const CLI::App& command, const PlanRunOptions& options) {
  for (const char* name : {"--schedule", "--stages", "--micro-batches", "--chunks", "--forward-ms", "--backward-ms",
                           "--transfer-ms", "--stage-costs", "--width", "--deepspeed"}) {
    if (command.get_option(name)->count() > 0)
      fail(ExitCode::usage, "{} cannot be combined with a run file ({}): see --help", name, options.run_file);
  }
  if (options.measure && options.suggest) fail(ExitCode::usage, "--measure or --suggest, not both");
  if (!options.gpu.empty() && !options.profile.empty()) fail(ExitCode::usage, "--gpu or --profile, not both");
  if (options.measure && options.has_machine())
    fail(ExitCode::usage, "--gpu and --profile plan for a machine; --measure runs on this one");
  if (options.measure && options.ranks > 0)
    fail(ExitCode::usage, "--ranks cannot be combined with --measure, which uses the ranks that mpirun or srun started");
  const auto only_with = [&](const char* name, const char* other, bool given) {
    if (command.get_option(name)->count() > 0 && !given) fail(ExitCode::usage, "{} needs {}", name, other);
  };
  only_with("--steps", "--measure", options.measure);
  const bool machine = options.has_machine() && !options.suggest;
  only_with("--svg", "--measure, --schedule, --gpu or --profile", options.measure || machine);
  for (const char* name : {"--memory-gib", "--host-memory-gib", "--network-gbit"})
    only_with(name, "--suggest, --gpu or --profile", options.suggest || machine);
  if (options.measure && command.get_option("--ranks-per-node")->count() > 0)
    fail(ExitCode::usage,
         "--ranks-per-node cannot be combined with --measure, which uses the nodes that mpirun or srun started on");
  for (const char* name : {"--tokens", "--price", "--failure-hours", "--checkpoint-seconds", "--restart-seconds"})
    only_with(name, "--gpu or --profile, without --suggest", machine);
}

void refuse_without_run_file(const CLI::App& command) {
  for (const char* name : {"--set", "--unset", "--ranks", "--measure", "--steps", "--suggest", "--memory-gib",
                           "--host-memory-gib", "--gpu", "--profile", "--ranks-per-node", "--network-gbit", "--tokens", "--price",
                           "--failure-hours", "--checkpoint-seconds", "--restart-seconds"}) {
    if (command.get_option(name)->count() > 0) fail(ExitCode::usage, "{} needs a run file: cohort plan run.toml {}", name, name);
  }
}

void add_machine_options(CLI::App& command, PlanRunOptions& run) {
  command.add_option("--gpu", run.gpu, "Plan for this GPU, by its data sheet: h100, a100, h200, b200, l40s, ...");
  command.add_option("--profile", run.profile, "Plan for a machine that `cohort bench calibration` measured")->type_name("FILE");
  command
      .add_option("--ranks-per-node,--gpus-per-node", run.ranks_per_node,
                  "Ranks of a node [those that were started; with --gpu, --profile or --suggest 8, or the profile's]")
      ->check(integer_from(1, 1'000'000));
  command.add_option("--memory-gib", run.memory_gib, "GiB of memory per rank [the GPU's, less 4]")->check(number_above(0.0, 1e6));
  command
      .add_option("--host-memory-gib", run.host_memory_gib,
                  "GiB of host memory per node, for all its ranks [the profile's; else not known, and no limit]")
      ->check(number_above(0.0, 1e6));
  command.add_option("--network-gbit", run.network_gbit, "Gbit/s of each GPU to other nodes [by the GPU]")
      ->check(number_above(0.0, 1e6));
  command.add_option("--tokens", run.tokens, "Tokens of the whole run [those of train.steps]")->check(number_above(0.0, 1e18));
  command.add_option("--price", run.price, "Of a GPU-hour, in any currency")->check(number_above(0.0, 1e9));
  command.add_option("--failure-hours", run.failure_hours, "Mean hours of one GPU between failures that end the run")
      ->check(number_above(0.0, 1e12))
      ->capture_default_str();
  command.add_option("--checkpoint-seconds", run.checkpoint_seconds, "Time that saving takes from training")
      ->check(number_above(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--restart-seconds", run.restart_seconds, "From a failure until steps are made again")
      ->check(number_from(0.0, 1e9))
      ->capture_default_str();
}

int plan_of_run(const PlanRunOptions& options) {
  if (options.measure) return plan_measure(options);
  try {
    if (options.suggest) return plan_suggest(options);
    return options.has_machine() ? plan_machine(options) : plan_run(options);
  } catch (const Error& error) {
    throw SharedError(error.code(), error.what());  // all ranks read the same file: one says what is wrong
  }
}

int show_deepspeed(const std::string& path) {
  const DeepSpeedImport import = import_deepspeed(read_file(path, "DeepSpeed configuration"), path);
  if (is_printing_rank()) fmt::print("{}", to_run_file(import));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("plan", "Predict what a run needs before it runs: memory, messages, the timeline of its pipeline");
  command->footer(kPlanFooter);
  const auto options = std::make_shared<PlanScheduleOptions>();
  command->add_option("--schedule", options->schedule, "Pipeline schedule: gpipe, 1f1b or interleaved");
  command->add_option("--stages", options->stages, "S: ranks of the pipeline");
  command->add_option("--micro-batches", options->micro_batches, "M: micro-batches of one optimizer step");
  command->add_option("--chunks", options->chunks, "V: chunks of layers per rank, 2 or more with interleaved, else 1")
      ->capture_default_str();
  command->add_option("--forward-ms", options->forward_ms, "Time of one micro-batch forward through one rank's layers")
      ->capture_default_str();
  command->add_option("--backward-ms", options->backward_ms, "Time of the same backward")->capture_default_str();
  command->add_option("--transfer-ms", options->transfer_ms, "Time of one message between two ranks; overlaps with work")
      ->capture_default_str();
  command
      ->add_option("--stage-costs", options->stage_costs,
                   "Factors of both times for consecutive parts of the model: S numbers, or S x V with interleaved")
      ->delimiter(',');
  command->add_option("--svg", options->svg, "Also draw the timeline into this file")->type_name("FILE");
  add_overwrite_option(*command, options->overwrite, "the file of --svg");
  command->add_option("--width", options->width, "Width of the text in columns")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  const auto deepspeed = std::make_shared<std::string>();
  command->add_option("--deepspeed", *deepspeed, "Translate a DeepSpeed configuration (JSON) into a run file")->type_name("FILE");
  const auto run = std::make_shared<PlanRunOptions>();
  command->add_option("run.toml", run->run_file, "The run file to plan");
  add_override_options(*command, run->overrides);
  command->add_option("--ranks,--gpus", run->ranks, "Plan for this many ranks, without starting them")->check(integer_from(1));
  command->add_flag("--measure", run->measure, "Run some steps and compare them with the prediction");
  command->add_option("--steps", run->steps, "Steps of --measure")->check(integer_from(2, 1'000'000))->capture_default_str();
  command->add_flag("--suggest", run->suggest, "List the layouts that fit");
  add_machine_options(*command, *run);
  command->callback([&action, command, options, deepspeed, run] {
    action = [command, options, deepspeed, run] {
      if (!run->run_file.empty()) {
        refuse_beside_run_file(*command, *run);
        run->svg = options->svg;
        run->overwrite = options->overwrite;
        run->json = options->json;
        return plan_of_run(*run);
      }
      refuse_without_run_file(*command);
      if (!deepspeed->empty()) return show_deepspeed(*deepspeed);
      require(*command, {"--schedule", "--stages", "--micro-batches"});
      return plan_schedule(*options);
    };
  });
}

}  // namespace cohort
