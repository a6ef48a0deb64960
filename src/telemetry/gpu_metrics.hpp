// How the GPUs of a job do while it trains: power, heat, clocks, load, memory and NVLink of every rank's GPU since the last
// report, for metrics.jsonl. A step that became slower often has its reason here: one card that is hot, and so clocks lower than
// the others, which all wait for it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "gpu/gpu_sampler.hpp"

namespace cohort {

/// What rank 0 learns; the others get only `own`.
struct GpuReport {
  gpu::GpuSummary own;                        // of this rank's GPU
  std::vector<gpu::GpuSummary> of_all_ranks;  // rank 0: by rank
};

/// Every rank's summary, in the order of ranks, on rank 0; elsewhere nothing. Of XIDs the last 4 of each rank travel.
// Collective over: world
std::vector<gpu::GpuSummary> gather(Communicator& world, const gpu::GpuSummary& own);

/// Samples the GPU of this process (gpu/gpu_sampler.hpp).
class GpuMetrics {
 public:
  explicit GpuMetrics(const std::string& pci_id) : sampler_(pci_id) {}
  /// What was sampled since the last call: one small all-gather. // Collective over: world
  GpuReport collect(Communicator& world);

 private:
  gpu::GpuSampler sampler_;
};

/// The object "gpu" of a record of metrics. For each figure the least, the mean and the most over ranks and samples; where one
/// rank stands out it is named: "hottest_rank", "slowest_clock_rank". "slowed" lists by reason the ranks whose clock was held
/// back, "xid" the errors that the driver reported. Null if no rank knows anything.
nlohmann::ordered_json to_json(std::span<const gpu::GpuSummary> of_all_ranks);

/// One line for each error that the driver has reported: "the GPU of rank 3 reported XID 63; ...".
std::vector<std::string> alarms(std::span<const gpu::GpuSummary> of_all_ranks);

}  // namespace cohort
