#include "train/trainer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/console.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "gpu/device.hpp"
#include "observe/flight_recorder.hpp"
#include "tensor/memory_report.hpp"
#include "train/checkpointing.hpp"
#include "train/estimate.hpp"
#include "train/generate.hpp"
#include "train/nonfinite.hpp"
#include "train/precision.hpp"
#include "train/run_directory.hpp"

namespace cohort {

namespace fs = std::filesystem;

namespace {

// How many sample ids a log line lists before it says "...".
constexpr std::size_t kListedSamples = 16;

std::string list_samples(const std::vector<Count>& ids) {
  const std::size_t shown = std::min(ids.size(), kListedSamples);
  return fmt::format("{}{}", fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), " "),
                     shown < ids.size() ? " ..." : "");
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options)
    : config_(config),
      data_(data),
      world_(world),
      mesh_(world, mesh_shape_of(config.parallel), device_of(config), config.device.share),
      cohort_version_(options.cohort_version),
      git_revision_(options.git_revision),
      launcher_(options.launcher),
      lock_(options.lock),
      requests_(config.run.directory, world.rank()),
      trainee_(config_, mesh_),
      sampler_(data.dataset->samples(Split::train), config.run.seed, config.train.global_batch, data.dataset->name()),
      share_(BatchShare::of(mesh_, trainee_.ring() ? &trainee_.ring()->split() : nullptr)),
      batches_(*data.dataset, sampler_, config.train, share_, trainee_.device()) {
  if (!options.resume_from.empty()) {
    resume(options);
  } else if (!config.run.initial_checkpoint.empty()) {
    trainee_.load_weights(config.run.initial_checkpoint);
  }
  saver_ =
      std::make_unique<CheckpointSaver>(world, config.run.directory, save_options_of(config.checkpoint), config.checkpoint.async);
  saver_->reserve(trainee_.shards());
  const bool resumed = !options.resume_from.empty();
  agree(world_, "setting later checkpoints aside", [&] {
    if (resumed && world.rank() == 0) set_aside_later_steps();
  });
  agree(world_, "opening the logs", [&] {
    log_ = std::make_unique<RankLog>(config.run.directory, world.rank(), log_level_from_name(config.log.level), resumed);
    if (world.rank() != 0) return;
    write_resolved_run_file(config_);
    metrics_ = std::make_unique<MetricsWriter>(fs::path(config.run.directory) / "metrics.jsonl",
                                               resumed ? std::optional<Count>(done_) : std::nullopt);
    progress_ = std::make_unique<ProgressLine>(ProgressLine::Options{
        .first_step = done_, .total_steps = config.train.steps, .every = config.log.every, .unit = units_name(config.model)});
  });
  watch_for_stragglers();
  if (trainee_.device() == DeviceKind::gpu) gpu_metrics_ = std::make_unique<GpuMetrics>(gpu::facts().pci_id);
  greet();
  prepare_faults(options.faults);
}

Trainer::~Trainer() = default;

void Trainer::say(const std::string& text) {
  if (world_.rank() != 0) return;
  if (progress_) {
    progress_->note(text);
  } else {
    print_to_console(text + "\n");
  }
}

void Trainer::greet() {
  log_->info("rank {} of {}, {}, strategy {}, {} samples of training data, from step {}{}{}", world_.rank(), world_.size(),
             mesh_.shape().str(), trainee_.strategy().name(), sampler_.samples(), done_ + 1, launcher_.job_id.empty() ? "" : "; ",
             job_in_words());
  for (const std::string& note : notes_) log_->warning("{}", note);
  if (world_.rank() != 0) return;
  std::string text =
      fmt::format("{}strategy    {} on {}, {}\nrun folder  {}\n", describe_run(config_, sampler_.samples()),
                  trainee_.strategy().name(), counted(world_.size(), "rank"), mesh_.shape().str(), config_.run.directory);
  if (data_.tokens && data_.tokens->entropy()) {
    text += fmt::format("floor       {:.4f} nats a token: the entropy of this corpus, which no model can beat on average\n",
                        data_.tokens->entropy()->exact);
  }
  if (!launcher_.job_id.empty()) text += fmt::format("job         {}\n", job_in_words());
  if (done_ > 0) {
    text += fmt::format("resumed     at step {}\n", done_);
    for (const std::string& note : notes_) text += fmt::format("warning: {}\n", note);
  } else if (!config_.run.initial_checkpoint.empty()) {
    text += fmt::format("weights     of {}\n", config_.run.initial_checkpoint);
  }
  print_to_console(text);
}

ExitCode Trainer::train() {
  running_ = done_ + 1;
  timers_.begin_step();
  FlightRecorder::of_process().set_step(running_);
  std::optional<Count> targets = load_step(done_);
  while (true) {
    if (!targets) return stop();
    running_ = done_ + 1;
    FlightRecorder::of_process().set_step(running_);
    if (faults_) {
      const auto scope = timers_.scope(Phase::data);  // so that a slow start is this rank's own work
      faults_->begin_step(running_);
    }
    const StepInput input{done_, batches_.inputs(), batches_.valid_targets(), *targets, faults_ && faults_->poisons()};
    samples_ = batches_.sample_ids();
    trainee_.start_step(input, timers_);
    if (done_ + 1 == config_.train.steps) break;
    // While a GPU works, the host reads the next step's data.
    targets = load_step(done_ + 1);
    end_step(trainee_.finish_step(timers_));
  }
  end_step(trainee_.finish_step(timers_));
  finish();
  return ExitCode::success;
}

std::optional<Count> Trainer::load_step(Count step) {
  {
    const auto scope = timers_.scope(Phase::data);
    batches_.load(step);
  }
  const auto scope = timers_.scope(Phase::communication);
  // Ranks of one tensor-parallel group or pipeline have the same samples: the first of them counts.
  const bool counts_targets = mesh_.index(Axis::tp) == 0 && mesh_.index(Axis::pp) == 0;
  std::array<std::int64_t, 3 + kRunRequests> counts{counts_targets ? batches_.valid_targets() : 0, saver_->has_news() ? 1 : 0,
                                                    lock_lost()};
  const auto requests = std::span(counts).subspan<3>();
  std::ranges::copy(requests_.poll(), requests.begin());
  all_reduce(world_, std::span<std::int64_t>(counts), ReduceOp::sum);
  if (counts[2] > 0) lock_->fail_lost();
  if (counts[1] > 0) report_saved();
  if (take_requests(requests)) return std::nullopt;
  return counts[0];
}

void Trainer::end_step(const StepResult& result) {
  if (result.skipped) judge_skip(result);
  skips_ = result.skipped ? skips_ + 1 : 0;
  ++done_;
  const double rate = static_cast<double>(result.valid_targets) / timers_.training_seconds();
  mean_rate_ = mean_rate_ == 0.0 ? rate : 0.9 * mean_rate_ + 0.1 * rate;
  log_step(result);
  const std::optional<Stragglers::Comparison> work = compare_work();
  log_memory_once();
  const std::optional<Evaluation> evaluation = validate_if_due();
  write_metrics(result, rate, work, evaluation);
  if (evaluation) require_finite_validation(*evaluation);
  if (progress_) {
    progress_->update(done_, result.loss, mean_rate_);
    if (evaluation) progress_->note(fmt::format("step {}: validation loss {:.4f}", done_, evaluation->loss));
  }
  // After the record: who resumes from this checkpoint finds the records of all its steps, whatever came between. So the time of
  // the save is the next step's.
  timers_.begin_step();
  save_if_due();
}

bool Trainer::is_reported(Count step) const { return step == 1 || step % config_.log.every == 0 || step == config_.train.steps; }

void Trainer::log_step(const StepResult& result) {
  const bool due = is_reported(done_);
  const auto line = [&] {
    return fmt::format("step {} loss {:.6f} (this rank's samples: {:.6f}) rate {:.3e} norm {:.4f} samples {}", done_, result.loss,
                       result.own_loss, result.learning_rate, result.gradient_norm, list_samples(samples_));
  };
  due ? log_->info("{}", line()) : log_->debug("{}", line());
}

std::optional<Evaluation> Trainer::validate_if_due() {
  const Count every = config_.train.validate_every;
  if (done_ != config_.train.steps && (every == 0 || done_ % every != 0)) return std::nullopt;
  const auto scope = timers_.scope(Phase::validation);
  evaluated_at_ = done_;
  last_evaluation_ = evaluate(evaluation_context(), trainee_.predictor(), *data_.dataset, mesh_.host_gradient(),
                              config_.train.micro_batch, config_.train.validation_samples);
  log_->info("step {} validation loss {:.6f} over {}", done_, last_evaluation_->loss,
             counted(last_evaluation_->targets, "target"));
  return last_evaluation_;
}

EvaluationContext Trainer::evaluation_context() {
  return {trainee_.exec(), trainee_.strategy(), trainee_.activations(), share_, trainee_.ring(), &mesh_.host_axis(Axis::pp)};
}

void Trainer::require_finite_validation(const Evaluation& evaluation) {
  require_finite(world_, fmt::format("step {}", done_), evaluation, evaluation_context(), trainee_.predictor(), *data_.dataset,
                 mesh_.host_gradient(), config_.train.micro_batch, config_.train.validation_samples);
}

void Trainer::write_metrics(const StepResult& result, double rate, const std::optional<Stragglers::Comparison>& work,
                            const std::optional<Evaluation>& evaluation) {
  const nlohmann::ordered_json gpu_figures = collect_gpu_metrics();
  if (!metrics_) return;
  nlohmann::ordered_json record{
      {"step", done_},
      {"loss", result.loss},
      {"learning_rate", result.learning_rate},
      {"gradient_norm", result.gradient_norm},
      {"tokens", result.valid_targets},
      {"tokens_per_second", rate},
      {"epoch", static_cast<double>(done_ * sampler_.global_batch()) / static_cast<double>(sampler_.samples())}};
  if (result.skipped) record["skipped"] = true;
  if (trainee_.loss_scale().active()) record["loss_scale"] = trainee_.loss_scale().scale();
  nlohmann::ordered_json seconds{{"step", timers_.step_seconds()}};
  for (Phase phase : kPhases) seconds[std::string(name_of(phase))] = timers_.seconds(phase);
  record["seconds"] = std::move(seconds);
  if (work) {
    record["slowest_rank"] = work->slowest;
    record["own_work"] = {{"min", work->min}, {"median", work->median}, {"max", work->max}};
  }
  if (!gpu_figures.is_null()) record["gpu"] = gpu_figures;
  if (evaluation) record["validation_loss"] = evaluation->loss;
  if (std::exchange(is_first_record_, false) && !launcher_.job_id.empty()) {
    record["slurm"] = {{"job", launcher_.job_id}, {"restart", launcher_.restart_count}};
    if (!launcher_.array_job_id.empty()) record["slurm"]["array"] = launcher_.array_job_id + "_" + launcher_.array_task_id;
  }
  metrics_->write(record);
}

void Trainer::finish() {
  report_saved();
  answer_if_saved();
  if (progress_) progress_->finish();
  if (world_.rank() == 0) {
    const std::string floor = data_.tokens && data_.tokens->entropy()
                                  ? fmt::format("; the corpus's entropy floor is {:.4f}", data_.tokens->entropy()->exact)
                                  : "";
    print_to_console(fmt::format("validation loss {:.4f} over {}{}\n", last_evaluation_->loss,
                                 counted(last_evaluation_->targets, "target"), floor));
  }
  std::optional<std::string> unit;  // if the logits were not finite: the first of this rank, or ""
  try {
    show_sample();
  } catch (const LogitsNotFinite& error) {
    unit = error.unit;
  }
  // All wait here for rank 0's sample.
  if (all_reduce_value(world_, unit ? 1 : 0, ReduceOp::max) == 0) return;
  const std::string where = first_not_finite_in_words(world_, unit.value_or(""));
  throw SharedError(ExitCode::training, fmt::format("the sample after step {}: the logits are not finite{}{}", done_,
                                                    where.empty() ? "" : "; ", where));
}

void Trainer::show_sample() {
  if (!data_.tokens || config_.sample.tokens == 0) return;
  // Ranks that hold the model between them generate together: those of rank 0's replica, and with ZeRO all.
  const bool holds_a_part = mesh_.index(Axis::dp) == 0 && mesh_.index(Axis::cp) == 0;
  if (!holds_a_part && trainee_.strategy().shard_group() == nullptr) return;
  const Tokenizer& tokenizer = data_.tokens->tokenizer();
  std::vector<std::int32_t> prompt;
  if (config_.sample.prompt.empty()) {
    prompt.resize(static_cast<std::size_t>(std::min(config_.model.context, data_.tokens->tokens(Split::validation))));
    data_.tokens->read(Split::validation, 0, prompt);
  } else {
    prompt = tokenizer.encode(config_.sample.prompt, "sample.prompt");
  }
  const std::vector<std::int32_t> text = generate(trainee_.predictor(), prompt,
                                                  {.vocabulary = tokenizer.vocabulary_size(),
                                                   .tokens = config_.sample.tokens,
                                                   .temperature = config_.sample.temperature,
                                                   .top_k = config_.sample.top_k,
                                                   .seed = config_.run.seed,
                                                   .context = config_.model.context,
                                                   .kernels = trainee_.exec().kernels},
                                                  trainee_.strategy());
  if (world_.rank() != 0) return;
  print_to_console(fmt::format("sample      the model goes on from {}:\n{}\n",
                               config_.sample.prompt.empty() ? "the start of the validation text" : "sample.prompt",
                               tokenizer.decode(text)));
}

}  // namespace cohort
