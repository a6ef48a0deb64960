// What a run says of its GPUs: memory after the first step, and samples of the time between two reports.
#include <nlohmann/json.hpp>

#include "gpu/device.hpp"
#include "tensor/memory_report.hpp"
#include "train/trainer.hpp"

namespace cohort {

void Trainer::log_memory_once() {
  if (!gpu_metrics_ || memory_logged_) return;
  // All that a step needs has been allocated. The largest block is looked for only when memory has run out: trying takes seconds,
  // and memory that other processes may want.
  log_->info("{}", describe(device_memory_report(/*try_largest=*/false)));
  memory_logged_ = true;
}

nlohmann::ordered_json Trainer::collect_gpu_metrics() {
  if (!gpu_metrics_ || !is_reported(done_)) return nullptr;
  const GpuReport report = gpu_metrics_->collect(world_);
  for (const int xid : report.own.xids) log_->warning("step {}: this rank's GPU reported XID {}", done_, xid);
  for (const std::string& alarm : alarms(report.of_all_ranks)) say(alarm);
  if (world_.rank() != 0) return nullptr;
  nlohmann::ordered_json figures = to_json(report.of_all_ranks);
  if (figures.is_null() && !gpu_silence_logged_) {
    log_->info("metrics have no figures of GPUs: NVML (libnvidia-ml.so.1) is not there, or does not answer");
    gpu_silence_logged_ = true;
  }
  return figures;
}

}  // namespace cohort
