#include "train/trainer.hpp"

#include <utility>

#include "comm/consensus.hpp"
#include "config/model_rules.hpp"
#include "observe/flight_recorder.hpp"
#include "train/observers/observers.hpp"
#include "train/resume_run.hpp"

namespace cohort {

Trainer::Trainer(const RunConfig& config, const RunData& data, Communicator& world, const TrainerOptions& options)
    : run_(config, data, world, options) {
  const bool resumed = !options.resume_from.empty();
  if (resumed) {
    resume_run(run_, options);
  } else if (!config.run.initial_checkpoint.empty()) {
    run_.train_step.load_weights(config.run.initial_checkpoint);
  }
  auto checkpoints = std::make_unique<Checkpoints>(run_, [this](Count step) {
    for (const auto& observer : observers_) observer->saved(step);
  });
  checkpoints_ = checkpoints.get();
  if (resumed) set_aside_later_steps(run_);
  run_.open_logs(resumed);
  observers_ = observers_of(run_, options, std::move(checkpoints));
  for (const auto& observer : observers_) observer->begin_run();
}

Trainer::~Trainer() = default;

ExitCode Trainer::run() {
  try {
    return train();
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("in step {}: {}", running_, error.what()));
  }
}

ExitCode Trainer::train() {
  running_ = run_.done + 1;
  run_.timers.begin_step();
  FlightRecorder::of_process().set_step(running_);
  Count targets = load(run_.done);
  while (!wish_.stop) {
    start_step(targets);
    const bool last = running_ == run_.config.train.steps;
    // While a GPU works, the host reads the next step's data.
    if (!last) targets = load(running_);
    end_step(run_.train_step.finish_step(run_.timers));
    if (!last) continue;
    checkpoints_->report();
    for (const auto& observer : observers_) observer->end_run(/*completed=*/true);
    return ExitCode::success;
  }
  return stop();
}

Count Trainer::load(Count step) {
  {
    const auto scope = run_.timers.scope(Phase::data);
    run_.batches.load(step);
  }
  const auto scope = run_.timers.scope(Phase::communication);
  // Ranks of one tensor-parallel group or pipeline have the same samples: the first of them counts.
  const bool counts_targets = run_.mesh.index(Axis::tp) == 0 && run_.mesh.index(Axis::pp) == 0;
  std::vector<std::int64_t> numbers{counts_targets ? run_.batches.valid_targets() : 0};
  std::vector<std::size_t> ends;  // in `numbers`, of each observer's votes
  for (const auto& observer : observers_) {
    const std::vector<std::int64_t> votes = observer->votes();
    numbers.insert(numbers.end(), votes.begin(), votes.end());
    ends.push_back(numbers.size());
  }
  all_reduce(run_.world, std::span<std::int64_t>(numbers), ReduceOp::sum);
  std::size_t begin = 1;
  for (std::size_t i = 0; i < observers_.size(); ++i) {
    take(observers_[i]->heard(std::span(numbers).subspan(begin, ends[i] - begin)));
    begin = ends[i];
  }
  return numbers.front();
}

void Trainer::start_step(Count global_targets) {
  running_ = run_.done + 1;
  FlightRecorder::of_process().set_step(running_);
  StepInput input{run_.done, run_.batches.inputs(), run_.batches.valid_targets(), global_targets};
  for (const auto& observer : observers_) observer->begin_step(input);
  run_.train_step.start_step(input, run_.timers);
}

void Trainer::end_step(const StepResult& result) {
  ++run_.done;
  const Count units = run_.config.train.global_batch * units_per_sample(run_.config.model);  // masked targets are computed, too
  StepRecord record{.step = run_.done, .result = result, .rate = static_cast<double>(units) / run_.timers.training_seconds()};
  for (const auto& observer : observers_) take(observer->end_step(record));
  // After the records: who resumes from this checkpoint finds those of all its steps, whatever came between. So the time of the
  // save is the next step's.
  run_.timers.begin_step();
  if (wish_.save) save();
}

void Trainer::take(Wish wish) {
  wish_.save = wish_.save || wish.save;
  if (!wish_.stop) wish_.stop = std::move(wish.stop);
}

void Trainer::save() {
  const auto scope = run_.timers.scope(Phase::checkpoint);
  wish_.save = false;
  for (const auto& observer : observers_) observer->begin_save();
  checkpoints_->save();
}

ExitCode Trainer::stop() {
  const std::string text = fmt::format("stopping after step {}: {}", run_.done, wish_.stop->why);
  run_.say(text);
  run_.log->info("{}", text);
  if (run_.done > 0 && run_.saved_at != run_.done) save();
  checkpoints_->report();
  if (run_.done == 0) run_.say("nothing was saved: no step was done; start again with the same command");
  for (const auto& observer : observers_) observer->end_run(/*completed=*/false);
  // A launcher may end the job as soon as one rank exits with a code other than 0: not before rank 0 has saved.
  run_.world.barrier();
  return wish_.stop->code;
}

}  // namespace cohort
