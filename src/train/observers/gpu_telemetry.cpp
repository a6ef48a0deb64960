#include "gpu/device.hpp"
#include "telemetry/gpu_metrics.hpp"
#include "tensor/memory_report.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

class GpuTelemetry : public StepObserver {
 public:
  explicit GpuTelemetry(TrainingRun& run) : run_(run), metrics_(gpu::facts().pci_id) {}

  Wish end_step(StepRecord& record) override {
    if (run_.is_reported(record.step)) {
      nlohmann::ordered_json figures = collect(record.step);
      if (!figures.is_null()) record.figures["gpu"] = std::move(figures);
    }
    return {};
  }

 private:
  // What was sampled since the last report; null on other ranks than 0, and if nothing is known. // Collective over: world
  nlohmann::ordered_json collect(Count step) {
    const GpuReport report = metrics_.collect(run_.world);
    for (const int xid : report.own.xids) run_.log->warning("step {}: this rank's GPU reported XID {}", step, xid);
    for (const std::string& alarm : alarms(report.of_all_ranks)) run_.say(alarm);
    if (run_.world.rank() != 0) return nullptr;
    nlohmann::ordered_json figures = to_json(report.of_all_ranks);
    if (figures.is_null() && !silence_logged_) {
      run_.log->info("metrics have no GPU figures: NVML (libnvidia-ml.so.1) is missing or does not answer");
      silence_logged_ = true;
    }
    return figures;
  }

  TrainingRun& run_;
  GpuMetrics metrics_;
  bool silence_logged_ = false;
};

// After the first step, before a validation: all that a step needs has been allocated.
class GpuMemoryLog : public StepObserver {
 public:
  explicit GpuMemoryLog(TrainingRun& run) : run_(run) {}

  Wish end_step(StepRecord&) override {
    // The largest block is looked for only when memory has run out: trying takes seconds, and memory that other processes may
    // want.
    if (!logged_) run_.log->info("{}", describe(device_memory_report(/*try_largest=*/false)));
    logged_ = true;
    return {};
  }

 private:
  TrainingRun& run_;
  bool logged_ = false;
};

}  // namespace

std::unique_ptr<StepObserver> make_gpu_memory_log(TrainingRun& run) {
  return run.train_step.device() == DeviceKind::gpu ? std::make_unique<GpuMemoryLog>(run) : nullptr;
}

std::unique_ptr<StepObserver> make_gpu_telemetry(TrainingRun& run) {
  return run.train_step.device() == DeviceKind::gpu ? std::make_unique<GpuTelemetry>(run) : nullptr;
}

}  // namespace cohort
