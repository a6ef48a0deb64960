#include "gpu/nvml_library.hpp"

#include <dlfcn.h>

namespace cohort::gpu {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

NvmlLibrary::NvmlLibrary() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return;
  int (*init)() = nullptr;
  usable_ = find(library, "nvmlInit_v2", init) && find(library, "nvmlDeviceGetHandleByPciBusId_v2", device_by_pci_id) &&
            find(library, "nvmlSystemGetDriverVersion", driver_version) && find(library, "nvmlDeviceGetPowerUsage", power) &&
            find(library, "nvmlDeviceGetEnforcedPowerLimit", power_limit) &&
            find(library, "nvmlDeviceGetTemperature", temperature) && find(library, "nvmlDeviceGetClockInfo", clock) &&
            init() == kSuccess;
  find(library, "nvmlDeviceGetMaxClockInfo", max_clock);
  find(library, "nvmlDeviceGetUtilizationRates", utilization);
  find(library, "nvmlDeviceGetMemoryInfo", memory);
  // Renamed in driver 535; the old name is still there, and is to go.
  if (!find(library, "nvmlDeviceGetCurrentClocksEventReasons", slowdown_reasons)) {
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", slowdown_reasons);
  }
  find(library, "nvmlDeviceGetTotalEccErrors", ecc_errors);
  find(library, "nvmlDeviceGetRemappedRows", remapped_rows);
  find(library, "nvmlDeviceGetFieldValues", field_values);
  find(library, "nvmlEventSetCreate", event_set_create);
  find(library, "nvmlEventSetFree", event_set_free);
  find(library, "nvmlDeviceRegisterEvents", register_events);
  find(library, "nvmlEventSetWait_v2", event_set_wait);
}

const NvmlLibrary* NvmlLibrary::of_process() {
  static const NvmlLibrary library;
  return library.usable_ ? &library : nullptr;
}

NvmlDevice NvmlLibrary::device(const std::string& pci_id) const {
  NvmlDevice device = nullptr;
  return device_by_pci_id(pci_id.c_str(), &device) == kSuccess ? device : nullptr;
}

}  // namespace cohort::gpu
