// Profiles of GPUs from their data sheets.
#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/profile.hpp"
#include "telemetry/device_peaks.hpp"

namespace cohort {
namespace {

// What a training step reaches of the peak, under the load and so the clock of training. Products: with operands without end, of
// which a shortest side of 4,096 leaves 95 % and one of 768 leaves 77 % (kHalfSide). An H200 at its power limit was seen to reach
// 0.80 of its peak in one product of 8,192 x 8,192 x 8,192 alone, and 0.6 to 0.75 in steps; A100s are further from their limit.
// Attention: causal, counting the pairs that are seen (2.5 times as much backward), by the kernels of cuDNN and FlashAttention.
struct Shares {
  double products, attention_forward, attention_backward;
};
constexpr Shares shares_of(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::volta:
      return {0.75, 0.35, 0.30};
    case GpuGeneration::ampere:
      return {0.87, 0.55, 0.48};
    case GpuGeneration::hopper:
      return {0.78, 0.50, 0.36};
    case GpuGeneration::blackwell:
      return {0.75, 0.45, 0.36};
  }
  return {};
}

constexpr double kHalfSide = 234.0;      // the shortest side of a product that reaches half of its rate
constexpr double kEpilogueShare = 0.87;  // of the rate of products, by those that also compute a GELU or its gradient
constexpr double kMemoryShare = 0.85;    // of the bandwidth, by kernels that only read and write
// Of copies from and to pinned memory, over 16 lanes of the PCIe of that time (3, 4 and 5: 16, 32 and 63 GB/s each way).
constexpr double host_gb_per_s(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::volta:
      return 12.0;
    case GpuGeneration::ampere:
      return 24.0;
    case GpuGeneration::hopper:
    case GpuGeneration::blackwell:
      return 50.0;
  }
  return 0.0;
}

constexpr double kLinkShare = 0.80;     // of the bandwidth of links, by long collectives of NCCL
constexpr double kNetworkShare = 0.85;  // the same between nodes
constexpr double kLaunch = 3e-6;        // of a kernel, one behind the other
// Seconds a hop of a ring: about what NCCL's own tuning assumes of NVLink and of InfiniBand.
constexpr double kNodeHop = 2e-6, kNetworkHop = 8e-6;
// NCCL's kernels take multiprocessors and memory bandwidth from the work beside them.
constexpr double kHidden = 0.9;
// What CUDA, NCCL and cuBLASLt keep of a device, and what fragmentation costs.
constexpr Bytes kReserved = 4 * kGiB;

constexpr double kGiga = 1e9, kBitsOfByte = 8.0;

}  // namespace

MachineProfile datasheet_profile(const std::string& gpu) {
  const Datasheet* const sheet = datasheet_named(gpu);
  if (sheet == nullptr) {
    const std::vector<std::string> names = datasheet_names();
    const std::string nearest = nearest_name(gpu, names);
    fail(ExitCode::usage, "--gpu {}: no such GPU in the table{}; it has {}; --profile FILE takes a machine that was measured",
         gpu, nearest.empty() ? "" : " (did you mean " + nearest + "?)", join(names));
  }
  const Shares shares = shares_of(sheet->generation);
  const auto sustained = [&](const char* policy, double share) {
    return share * sheet->clock * sheet->flops(policy).value_or(0.0);
  };
  MachineProfile profile;
  profile.name = gpu;
  profile.basis = fmt::format("estimates from the data sheet of the {}: nothing was measured", sheet->name);
  profile.memory = std::max<Bytes>(kGiB, static_cast<Bytes>(sheet->memory_gib * static_cast<double>(kGiB)) - kReserved);
  profile.hidden = kHidden;
  profile.rates = {.eight_bits = sustained("fp8", shares.products),
                   .sixteen_bits = sustained("fp16", shares.products),
                   .tf32 = sustained("tf32", shares.products),
                   .fp32 = sustained("fp32", shares.products),
                   .half_side = kHalfSide,
                   .epilogue_share = kEpilogueShare,
                   .attention_forward = sustained("fp16", shares.attention_forward),
                   .attention_backward = sustained("fp16", shares.attention_backward),
                   .bytes_per_second = kMemoryShare * kGiga * sheet->memory_gb_per_s,
                   .launch = kLaunch};
  profile.node = {kNodeHop, kLinkShare * kGiga * sheet->link_gb_per_s};
  profile.host_bytes_per_second = kGiga * host_gb_per_s(sheet->generation);
  profile.network = {kNetworkHop, kNetworkShare * kGiga / kBitsOfByte * sheet->network_gbit_per_s};
  return profile;
}

MachineProfile usual_cpu_profile() {
  MachineProfile profile;
  profile.name = "cpu";
  profile.basis = "rough figures of a CPU core and a shared network: nothing was measured";
  profile.device = DeviceKind::cpu;
  profile.hidden = 0.0;
  profile.rates = {.sixteen_bits = 50e9,
                   .tf32 = 50e9,
                   .fp32 = 50e9,
                   .attention_forward = 20e9,
                   .attention_backward = 20e9,
                   .bytes_per_second = 5e9,
                   .launch = 1e-6};
  profile.node = {2e-6, 2e9};
  profile.host_bytes_per_second = 2.5e9;  // each byte is read and written
  profile.network = {20e-6, 1e9};
  return profile;
}

}  // namespace cohort
