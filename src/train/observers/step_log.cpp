#include <algorithm>

#include "base/text.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

// How many sample ids a log line lists before it says "...".
constexpr std::size_t kListedSamples = 16;

std::string list_samples(const Dataset& dataset, const std::vector<Count>& ids) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ids.size(), kListedSamples); ++i)
    names.push_back(dataset.sample_name(Split::train, ids[i]));
  return join(names, " ") + (names.size() < ids.size() ? " ..." : "");
}

class StepLog : public StepObserver {
 public:
  explicit StepLog(TrainingRun& run) : run_(run) {}

  void begin_run() override {
    run_.log->info("rank {} of {}, {}, strategy {}, {} of training data, from step {}{}{}", run_.world.rank(), run_.world.size(),
                   run_.mesh.shape().str(), run_.train_step.strategy().name(), counted(run_.sampler.samples(), "sample"),
                   run_.done + 1, run_.launcher.job_id.empty() ? "" : "; ", run_.job_in_words());
    for (const std::string& note : run_.notes) run_.log->warning("{}", note);
  }

  void begin_step(StepInput&) override { samples_ = run_.batches.sample_ids(); }

  Wish end_step(StepRecord& record) override {
    const auto line = [&] {
      const StepResult& result = record.result;
      return fmt::format("step {} loss {:.6f} (this rank's samples: {:.6f}) rate {:.3e} norm {:.4f} samples {}", record.step,
                         result.loss, result.own_loss, result.learning_rate, result.gradient_norm,
                         list_samples(*run_.data.dataset, samples_));
    };
    run_.is_reported(record.step) ? run_.log->info("{}", line()) : run_.log->debug("{}", line());
    return {};
  }

 private:
  TrainingRun& run_;
  std::vector<Count> samples_;  // of the step that was begun last
};

}  // namespace

std::unique_ptr<StepObserver> make_step_log(TrainingRun& run) { return std::make_unique<StepLog>(run); }

}  // namespace cohort
