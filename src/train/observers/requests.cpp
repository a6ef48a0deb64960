#include "rundir/requests.hpp"

#include <algorithm>
#include <utility>

#include "comm/consensus.hpp"
#include "runtime/signals.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class RequestsFromOutside : public StepObserver {
 public:
  explicit RequestsFromOutside(TrainingRun& run) : run_(run), requests_(run.config.run.directory, run.world.rank()) {}

  std::vector<std::int64_t> votes() override {
    const auto asked = requests_.poll();
    return {asked.begin(), asked.end()};
  }

  Wish heard(std::span<const std::int64_t> sums) override {
    const auto asked = [&](RunRequest request) { return sums[static_cast<std::size_t>(request)] > 0; };
    Wish wish{.save = asked(RunRequest::save)};
    save_asked_ = save_asked_ || wish.save;
    if (asked(RunRequest::stop_by_file)) {
      const std::string file = run_.config.run.directory + "/stop";
      wish.stop = {ExitCode::stopped, fmt::format("{} was found; to resume, remove it and start with --resume-if-any", file)};
    } else if (asked(RunRequest::stop_by_signal)) {
      const int signal = all_reduce_value(run_.world, static_cast<std::int32_t>(stop_signal()), ReduceOp::max);
      wish.stop = {ExitCode::interrupted, std::string(signal_name(signal))};
    }
    return wish;
  }

  void begin_save() override {
    if (std::exchange(save_asked_, false)) answering_ = run_.done;
  }
  void saved(Count step) override {
    if (answering_ != step) return;
    answer_save();
    answering_ = -1;
  }
  // RUN/save has what it asks for, however late the file came, if the state of the end is on disk.
  void end_run(bool /*completed*/) override {
    if (run_.saved_at == run_.done) answer_save();
  }

 private:
  // Removes RUN/save.
  void answer_save() {
    if (!requests_.save_done()) run_.say("warning: cannot remove the file save in the run folder, which requested a checkpoint");
  }

  TrainingRun& run_;
  Requests requests_;
  bool save_asked_ = false;  // by RUN/save
  Count answering_ = -1;     // step of the save that answers RUN/save, until it is complete
};

}  // namespace

std::unique_ptr<StepObserver> make_requests(TrainingRun& run) { return std::make_unique<RequestsFromOutside>(run); }

}  // namespace cohort
