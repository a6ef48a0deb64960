#include "config/fault.hpp"
#include "rundir/fault_marks.hpp"
#include "train/fault_injector.hpp"
#include "train/lose_device.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class Faults : public StepObserver {
 public:
  Faults(TrainingRun& run, const std::vector<FaultSection>& faults) : run_(run), faults_(faults) {}

  void begin_run() override {
    const std::string& folder = run_.config.run.directory;
    for (const FaultSection& fault : faults_) {
      if (!has_been(fault, folder)) run_.say("fault: " + describe_fault(fault));
    }
    injector_.emplace(faults_, run_.world.rank(), folder, *run_.log, lose_device);
    if (injector_->empty()) {
      injector_.reset();
    } else {
      run_.timers.on_entry([this](Phase phase) { injector_->enter(phase); });
    }
  }

  void begin_step(StepInput& input) override {
    if (!injector_) return;
    const auto scope = run_.timers.scope(Phase::data);  // so that a slow start is this rank's own work
    injector_->begin_step(input.step + 1);
    input.poisoned = injector_->poisons();
  }

  void begin_save() override {
    if (injector_) injector_->begin_save();
  }

 private:
  TrainingRun& run_;
  const std::vector<FaultSection> faults_;
  std::optional<FaultInjector> injector_;  // none: nothing goes wrong on purpose on this rank
};

}  // namespace

std::unique_ptr<StepObserver> make_faults(TrainingRun& run, const std::vector<FaultSection>& faults) {
  return faults.empty() ? nullptr : std::make_unique<Faults>(run, faults);
}

}  // namespace cohort
