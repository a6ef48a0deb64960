#include <optional>

#include "base/process.hpp"
#include "base/text.hpp"
#include "observe/metrics.hpp"
#include "runtime/runtime.hpp"
#include "train/observers/observers.hpp"
#include "train/trace_file.hpp"

namespace cohort {
namespace {

// The last of the observers: what the others do about a step is in its time, as in the metrics.
class Trace : public StepObserver {
 public:
  Trace(TrainingRun& run, const TraceRange& range) : run_(run), range_(range) {}

  void begin_run() override {
    if (run_.done >= range_.last) {
      run_.say(fmt::format("note: nothing is traced: step {} is done already", range_.last));
    } else if (run_.done + 1 >= range_.first) {
      begin();
    }
  }

  Wish end_step(StepRecord& record) override {
    if (trace_) {
      trace_->end_step(record.step);
      last_ = record.step;
      if (record.step == range_.last) finish();
    } else if (record.step + 1 == range_.first) {
      begin();
    }
    return {};
  }

  // Stopped on the way: what there is.
  void end_run(bool /*completed*/) override {
    if (!trace_) return;
    trace_->end_rest();
    finish();
  }

 private:
  void begin() {
    first_ = run_.done + 1;
    last_ = run_.done;
    trace_.emplace(run_.mesh, run_.train_step.device() == DeviceKind::gpu);
  }

  void finish() {
    const nlohmann::ordered_json facts{{"program", "cohort"},
                                       {"version", run_.cohort_version},
                                       {"run", run_.config.run.name},
                                       {"layout", run_.mesh.shape().str()},
                                       {"strategy", run_.train_step.strategy().name()},
                                       {"ranks", run_.world.size()},
                                       {"pp", run_.mesh.size(Axis::pp)},
                                       {"steps", {first_, last_}}};
    const RunTrace::Written written = trace_->finish(run_.config.run.directory, facts, process_identity().host);
    trace_.reset();
    if (run_.world.rank() != 0) return;
    const std::string steps = first_ == last_ ? fmt::format("step {}", first_) : fmt::format("steps {}-{}", first_, last_);
    const std::string text = written.trouble.empty()
                                 ? fmt::format("traced {} to {} ({}; clocks agree to {:.1f} us)", steps, written.file.string(),
                                               human_bytes(written.bytes), 1e6 * written.clock_error)
                                 : fmt::format("warning: {} were traced, but {}", steps, written.trouble);
    run_.log->info("{}", text);
    run_.say(text);
  }

  TrainingRun& run_;
  TraceRange range_;
  Count first_ = 0, last_ = 0;  // that are in the trace
  std::optional<RunTrace> trace_;
};

}  // namespace

std::unique_ptr<StepObserver> make_trace(TrainingRun& run, const std::optional<TraceRange>& range) {
  return range ? std::make_unique<Trace>(run, *range) : nullptr;
}

}  // namespace cohort
