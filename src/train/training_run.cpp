#include "train/training_run.hpp"

#include "base/console.hpp"
#include "comm/consensus.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "observe/clock.hpp"
#include "rundir/run_directory.hpp"
#include "train/precision.hpp"
#include "train/resume.hpp"

namespace cohort {

TrainingRun::TrainingRun(const RunConfig& config_of_run, const RunData& data_of_run, Communicator& all,
                         const TrainerOptions& options)
    : config(config_of_run),
      data(data_of_run),
      world(all),
      cohort_version(options.cohort_version),
      git_revision(options.git_revision),
      launcher(options.launcher),
      lock(options.lock),
      mesh(world, mesh_shape_of(config.parallel), device_of(config), config.device.share),
      train_step(config, mesh),
      sampler(sampler_of(config, *data.dataset)),
      share(BatchShare::of(mesh, train_step.ring() ? &train_step.ring()->split() : nullptr)),
      batches(*data.dataset, sampler, config.train, share, train_step.device()),
      utilisation(config, world.size()) {}

void TrainingRun::open_logs(bool resumed) {
  fail_together(world, "opening the logs", [&] {
    log = std::make_unique<RankLog>(config.run.directory, world.rank(), log_level_from_name(config.log.level), resumed);
    if (world.rank() != 0) return;
    write_resolved_run_file(config);
    progress = std::make_unique<ProgressTable>(ProgressTable::Options{.first_step = done,
                                                                      .total_steps = config.train.steps,
                                                                      .every = config.log.every,
                                                                      .unit = units_name(config.model),
                                                                      .has_mfu = utilisation.known()});
    if (!config.observe.tensorboard) return;
    tensorboard = std::make_unique<TensorBoardWriter>(std::filesystem::path(config.run.directory) / "tensorboard",
                                                      resumed ? done + 1 : 0, seconds_since_1970());
  });
}

void TrainingRun::say(const std::string& text) {
  if (world.rank() != 0) return;
  if (progress) {
    progress->note(text);
  } else {
    print_to_console(text + "\n");
  }
}

std::string TrainingRun::job_in_words() const {
  if (launcher.job_id.empty()) return "";
  const std::string array =
      launcher.array_job_id.empty() ? "" : fmt::format(" ({}_{})", launcher.array_job_id, launcher.array_task_id);
  return fmt::format("SLURM job {}{}, restart {}", launcher.job_id, array, launcher.restart_count);
}

TrainingState TrainingRun::state() const {
  TrainingState state;
  state.step = done;
  state.samples_seen = done * sampler.global_batch();
  state.tokens_seen = state.samples_seen * units_per_sample(config.model);
  state.seed = config.run.seed;
  state.model = describe_model(config.model);
  state.data = data.description;
  state.run_file = to_toml(config);
  state.tokenizer = data.tokenizer;
  state.cohort_version = cohort_version;
  state.git_revision = git_revision;
  state.loss_scale = fmt::format("{}", train_step.loss_scale().scale());
  state.loss_scale_good_steps = train_step.loss_scale().good_steps();
  if (evaluated_at == done) state.validation_loss = fmt::format("{}", evaluation->loss);
  state.history = history;
  state.ranks = world.size();
  state.layout = mesh.shape().str();
  return state;
}

}  // namespace cohort
