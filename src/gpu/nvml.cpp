#include "gpu/nvml.hpp"

#include <dlfcn.h>

namespace cohort::gpu {
namespace {

// The few functions that we use, with the types of nvml.h (NVML API reference, "Device Queries").
using Device = struct nvmlDevice_st*;
constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kClockOfMultiprocessors = 1;

class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library_ == nullptr) return;
    int (*init)() = nullptr;
    usable_ = find("nvmlInit_v2", init) && find("nvmlDeviceGetHandleByPciBusId_v2", handle_) &&
              find("nvmlDeviceGetPowerUsage", power_) && find("nvmlDeviceGetEnforcedPowerLimit", limit_) &&
              find("nvmlDeviceGetTemperature", temperature_) && find("nvmlDeviceGetClockInfo", clock_) && init() == kSuccess;
  }

  std::optional<Reading> read(const std::string& pci_id) const {
    Device device = nullptr;
    if (!usable_ || handle_(pci_id.c_str(), &device) != kSuccess) return std::nullopt;
    unsigned milliwatts = 0;
    unsigned limit_milliwatts = 0;
    unsigned celsius = 0;
    unsigned mhz = 0;
    if (power_(device, &milliwatts) != kSuccess || limit_(device, &limit_milliwatts) != kSuccess ||
        temperature_(device, kTemperatureOfGpu, &celsius) != kSuccess ||
        clock_(device, kClockOfMultiprocessors, &mhz) != kSuccess) {
      return std::nullopt;
    }
    return Reading{1e-3 * milliwatts, 1e-3 * limit_milliwatts, static_cast<int>(celsius), static_cast<int>(mhz)};
  }

 private:
  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  void* library_ = nullptr;  // stays loaded to the end of the process
  bool usable_ = false;
  int (*handle_)(const char*, Device*) = nullptr;
  int (*power_)(Device, unsigned*) = nullptr;
  int (*limit_)(Device, unsigned*) = nullptr;
  int (*temperature_)(Device, int, unsigned*) = nullptr;
  int (*clock_)(Device, int, unsigned*) = nullptr;
};

}  // namespace

std::optional<Reading> read_gpu(const std::string& pci_id) {
  static const Nvml nvml;
  return nvml.read(pci_id);
}

}  // namespace cohort::gpu
