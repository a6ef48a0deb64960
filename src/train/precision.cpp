#include "train/precision.hpp"

namespace cohort {

DeviceKind device_of(const RunConfig& config) {
  COHORT_CHECK(config.device.kind != "auto", "device.kind = \"auto\" was not resolved: call validate() first");
  return config.device.kind == "cuda" ? DeviceKind::gpu : DeviceKind::cpu;
}

ModelStorage storage_of(const RunConfig& config) {
  const std::string& policy = config.precision.policy;
  const DType compute = policy == "bf16" || policy == "fp8" ? DType::bf16 : policy == "fp16" ? DType::f16 : DType::f32;
  return {device_of(config), compute};
}

ops::Exec exec_of(const RunConfig& config) {
  return {.device = device_of(config),
          .tf32 = config.precision.policy == "tf32",
          .fp8 = config.precision.policy == "fp8",
          .kernels = config.device.kernels == "portable" ? ops::Kernels::portable : ops::Kernels::tuned};
}

DType reduction_of(const RunConfig& config) {
  return config.precision.reduction == "compute" ? storage_of(config).compute : DType::f32;
}

}  // namespace cohort
