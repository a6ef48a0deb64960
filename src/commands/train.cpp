// `cohort train`: trains the model of a run file.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/console.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/load/collective.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_settings.hpp"
#include "commands/commands.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/override_options.hpp"
#include "commands/common/version.hpp"
#include "config/describe.hpp"
#include "config/fault.hpp"
#include "gpu/device.hpp"
#include "rundir/requests.hpp"
#include "rundir/run_directory.hpp"
#include "rundir/run_lock.hpp"
#include "runtime/failure_exit.hpp"
#include "runtime/runtime.hpp"
#include "runtime/signals.hpp"
#include "runtime/topology.hpp"
#include "train/conversations.hpp"
#include "train/estimate.hpp"
#include "train/host_memory.hpp"
#include "train/precision.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"

namespace cohort {
namespace {

struct TrainOptions {
  std::string run_file;
  std::vector<std::string> overrides;
  std::vector<std::string> faults;
  std::string trace;
  bool resume = false;
  bool resume_if_any = false;
  std::string resume_from;
  bool overwrite = false;
  bool allow_changes = false;
  bool dry_run = false;
  Count ranks = 0;
  bool help_keys = false;
  std::string with;
};

ExistingRun existing_run(const TrainOptions& options) {
  if (options.resume) return ExistingRun::resume;
  if (options.resume_if_any) return ExistingRun::resume_if_any;
  if (!options.resume_from.empty()) return ExistingRun::resume_from;
  if (options.overwrite) return ExistingRun::overwrite;
  return ExistingRun::refuse;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto inner = std::filesystem::weakly_canonical(path), outer = std::filesystem::weakly_canonical(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Before anything of an earlier run is deleted: the weights to start from are there, for this tokenizer, and not what would be
// deleted. Collective over: world
void check_initial_checkpoint(Communicator& world, const RunSection& run, const RunData& data, const TrainOptions& options) {
  const ExistingRun existing = existing_run(options);
  const bool starts = existing == ExistingRun::refuse || existing == ExistingRun::overwrite;
  if (run.initial_checkpoint.empty() || !starts) return;
  const TrainingState state = read_training_state_collectively(world, run.initial_checkpoint);
  if (data.tokens && !options.allow_changes) require_same_tokenizer(data, state);
  if (existing != ExistingRun::overwrite || !lies_in(run.initial_checkpoint, run.directory)) return;
  throw SharedError(ExitCode::usage,
                    fmt::format("run.initial_checkpoint = {} lies in the run folder {}, which --overwrite empties; "
                                "choose another folder with --set run.name=NAME",
                                run.initial_checkpoint, run.directory));
}

// Whether a job that was started again, by SLURM or by a chain, finds its run at the end. Then it has nothing to do, and has not
// failed. A checkpoint that cannot be read is the trainer's to judge. Collective over: world
bool is_done_already(Communicator& world, const RunConfig& config, const std::vector<std::filesystem::path>& checkpoints) {
  if (checkpoints.empty()) return false;
  Count done = 0;
  try {
    done = read_training_state_collectively(world, checkpoints.front()).step;
  } catch (const SharedError& error) {
    if (error.code() != ExitCode::checkpoint) throw;
  }
  if (done < config.train.steps) return false;
  if (world.rank() == 0) {
    fmt::print("{} has done {}, and train.steps = {}: nothing is left to do\n", checkpoints.front().string(),
               counted(done, "step"), config.train.steps);
  }
  return true;
}

// Collective over: world
void capture_nccl(const std::string& run_directory, Communicator& world) {
  std::optional<std::filesystem::path> file;
  fail_together(world, "opening NCCL's log", [&] { file = capture_nccl_messages(run_directory, world.rank()); });
  if (file && world.rank() == 0) print_to_console(fmt::format("NCCL        logs to {}, one file per rank\n", file->string()));
}

LockOptions lock_options(const std::string& run_directory) {
  return {.say = [](const std::string& text) { print_to_console(fmt::format("lock        {}\n", text)); },
          .way_out = fmt::format("end it with `touch {}/stop`, or give this run another folder with --set run.name=NAME",
                                 run_directory)};
}

void warn(Communicator& world, const std::string& warning) {
  if (world.rank() == 0 && !warning.empty()) print_error_line("warning: " + warning);
}

// `ranks_per_node` 0: not known, as the run is not started here.
int dry_run(RunConfig config, const std::vector<FaultSection>& faults, Communicator& world, int ranks_per_node) {
  const RunData data = open_data(world, config, DataUse::training);
  for (const std::string& warning : data_warnings(config, data)) warn(world, warning);
  warn(world, long_conversations_warning(config, data));
  if (world.rank() == 0) {
    if (ranks_per_node > 0) {
      const Bytes need = host_memory_of_node(config, count_stages(config), ranks_per_node);
      warn(world, why_not_in_host_memory(config, need, ranks_per_node, this_node()));
    }
    fmt::print("{}{}", describe_run(config, data.dataset->samples(Split::train), ranks_per_node), describe_mixture(config, data));
    for (const FaultSection& fault : faults) fmt::print("fault       {}\n", describe_fault(fault));
    fmt::print("The run file is valid; nothing was trained or written (--dry-run).\n");
    if (config.device.kind == "cuda" && gpu::visible_devices() == 0)
      fmt::print("Training it needs GPUs, and there are none here: {}\n", gpu::why_no_device());
    fmt::print("\nWith all defaults it is:\n\n{}", to_toml(config));
  }
  return 0;
}

int train(const TrainOptions& options) {
  if (options.help_keys) {
    if (is_printing_rank()) fmt::print("{}", describe_keys());
    return 0;
  }
  if (options.run_file.empty())
    fail(ExitCode::usage, "no run file given. For example: cohort train inputs/demo.toml (see `cohort train --help`)");
  if (options.ranks > 0 && !options.dry_run)
    fail(ExitCode::usage, "--ranks needs --dry-run; a real run uses the ranks that mpirun or srun started");
  // From here on a signal is not lost: it ends the run before its first step.
  if (!options.dry_run) {
    install_stop_signals();
    outlive_broken_pipes();
  }
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const Count ranks = options.ranks > 0 ? options.ranks : world->size();
  RunConfig config = load_run(runtime, *world, options.run_file, options.overrides, ranks, options.dry_run);
  TrainerOptions trainer_options;
  fail_together(*world, "the faults", [&] { trainer_options.faults = faults_of(config, options.faults, ranks); });
  fail_together(*world, "the steps to trace", [&] { trainer_options.trace = parse_trace_range(options.trace, config); });
  if (options.dry_run) return dry_run(config, trainer_options.faults, *world, options.ranks > 0 ? 0 : runtime.local_size());
  for (const std::string& warning : startup_warnings(runtime)) warn(*world, warning);
  const RunData data = open_data(*world, config, DataUse::training);
  for (const std::string& warning : data_warnings(config, data)) warn(*world, warning);
  warn(*world, long_conversations_warning(config, data));
  set_up_job(runtime, *world, config);
  check_initial_checkpoint(*world, config.run, data, options);
  // Before anything of an earlier run is touched.
  count_step_that_fits(config, static_cast<int>(mesh_shape_of(config.parallel).coordinates_of(world->rank())[Axis::pp]), *world);
  RunLock lock(*world, config.run.directory, runtime.launcher(), lock_options(config.run.directory));
  refuse_if_stopped(*world, config.run.directory);
  trainer_options.lock = &lock;
  trainer_options.launcher = runtime.launcher();
  trainer_options.resume_from =
      prepare_run_directory(*world, config.run.directory, existing_run(options),
                            {.from = options.resume_from, .falls_back = config.checkpoint.fallback == "previous"});
  if (options.resume_if_any && is_done_already(*world, config, trainer_options.resume_from)) return 0;
  runtime.monitor().set_folder(flight_folder(config.run.directory));
  if (device_of(config) == DeviceKind::gpu) capture_nccl(config.run.directory, *world);
  trainer_options.allow_changes = options.allow_changes;
  trainer_options.cohort_version = cohort_version();
  trainer_options.git_revision = git_revision();
  use_learners_code(*world, options.with);
  Trainer trainer(config, data, *world, trainer_options);
  return static_cast<int>(trainer.run());
}

}  // namespace

void add_train_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "Train the model of a run file");
  command->footer(
      "Examples, first with a classifier that needs no data:\n"
      "  cohort train inputs/lab02_mlp.toml                             train on one rank\n"
      "  cohort train inputs/lab02_mlp.toml --set train.steps=320 --resume\n"
      "                                                                resume from the newest checkpoint, up to step 320\n"
      "  cohort train inputs/lab02_mlp.toml --set train.steps=320 --resume-from 300\n"
      "                                                                resume from that one; later ones are set aside\n"
      "  mpirun -np 2 cohort train inputs/lab02_mlp.toml --set parallel.data=bucketed --set run.name=two\n"
      "                                                                train on two ranks\n"
      "  cohort train inputs/lab02_mlp.toml --unset schedule.warmup_steps --set run.name=cold\n"
      "                                                                without a key of the file: its default applies\n"
      "  cohort train inputs/lab02_mlp.toml --set run.name=traced --trace steps=10-12\n"
      "                                                                trace three steps, for ui.perfetto.dev\n"
      "  cohort train --help-keys                                      every key of a run file\n"
      "and with the text that inputs/demo.toml and the labs read (`make stories` writes it, too):\n"
      "  mkdir -p data\n"
      "  cohort data synth stories --out data/stories.txt\n"
      "  cohort data prepare --input data/stories.txt --out data/stories.h5 --tokenizer bpe --vocabulary 1024\n"
      "  cohort train inputs/demo.toml --dry-run                       check the run file; parameters, memory and batch\n"
      "  cohort train inputs/demo.toml --dry-run --ranks 2             the same as two ranks would see it\n"
      "  cohort train inputs/lab01_tiny_transformer.toml                a transformer, in about ten seconds\n"
      "\n"
      "SIGINT, SIGTERM and SIGUSR1 end the run within two steps (and a validation, if one is due), with a checkpoint if a step\n"
      "was done, and exit code 9: to be resumed. `touch RUN/stop` does the same with exit code 13; nothing trains in RUN until\n"
      "the file is removed.\n"
      "`touch RUN/save` saves a checkpoint and keeps training; the file is removed when the checkpoint is complete.\n"
      "If standard output cannot be written (a full disk, a closed pipe), the run continues and ends with exit code 7.\n"
      "\n"
      "--fault breaks one rank on purpose: --fault exit:rank=2,step=5. Kinds: exit (code=), abort, kill, stop, segv, throw,\n"
      "hang, slow (seconds=), nan, disk, device; with rank=, step=, phase=, once=, as in the section [fault] of a run file.");
  const auto options = std::make_shared<TrainOptions>();
  command->add_option("run.toml", options->run_file, "The run file");
  add_override_options(*command, options->overrides);
  command->add_option("--fault", options->faults, "Break a rank on purpose, in a step (may be repeated)")
      ->type_name("KIND:rank=R,step=S")
      ->allow_extra_args(false);
  command->add_option("--trace", options->trace, "Trace these steps on all ranks, into RUN/trace.json: where their time goes")
      ->type_name("steps=FIRST-LAST");
  auto* resume = command->add_flag("--resume", options->resume,
                                   "Resume from the newest checkpoint of the run folder; an error if there is none");
  auto* if_any = command->add_flag("--resume-if-any", options->resume_if_any,
                                   "Resume if there is a checkpoint, else start: for requeued jobs");
  auto* overwrite = command->add_flag("--overwrite", options->overwrite,
                                      "Start over in a run folder that holds checkpoints, deleting what Cohort wrote there");
  auto* from = command
                   ->add_option("--resume-from", options->resume_from,
                                "Resume from this step of the run, or from the checkpoint at this path")
                   ->type_name("STEP|PATH")
                   ->check([](const std::string& text) { return text.empty() ? "name a step or a path" : ""; });
  resume->excludes(if_any)->excludes(overwrite)->excludes(from);
  if_any->excludes(overwrite)->excludes(from);
  overwrite->excludes(from);
  command->add_flag(
      "--allow-changes", options->allow_changes,
      "Resume although model, optimizer, schedule, batch, seed or data changed; start from run.initial_checkpoint with "
      "another tokenizer");
  command->add_flag("--dry-run", options->dry_run, "Validate and print the resolved run; train nothing");
  command->add_option("--ranks", options->ranks, "With --dry-run: validate for this many ranks")->check(integer_from(1));
  add_with_option(*command, options->with);
  command->add_flag("--help-keys", options->help_keys, "Explain every key of a run file");
  command->callback([&action, options] { action = [options] { return train(*options); }; });
}

}  // namespace cohort
