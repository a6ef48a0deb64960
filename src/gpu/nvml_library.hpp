// NVIDIA's management library (NVML) as it was found at run time: its functions by name, and the few types and numbers of its
// interface that we use (NVML API reference). Its header is not needed to build, nor the library to run. Only for nvml.cpp and
// xid_listener.cpp.
#pragma once

#include <string>

namespace cohort::gpu {

using NvmlDevice = struct nvmlDevice_st*;
using NvmlEventSet = struct nvmlEventSet_st*;

struct NvmlUtilization {
  unsigned gpu_percent;
  unsigned memory_percent;
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlFieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;    // which member of the union: see field_number()
  int result;  // whether this field could be read
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
  } value;
};
struct NvmlEventData {
  NvmlDevice device;
  unsigned long long type;
  unsigned long long data;  // of an XID event: the XID
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct NvmlLibrary {
  static constexpr int kSuccess = 0;

  /// The library of this process, loaded and initialised when first asked for; null where there is none, or no driver. It stays
  /// loaded to the end of the process. Safe from any thread, as NVML itself is.
  static const NvmlLibrary* of_process();

  /// The GPU at a PCI address; null if NVML does not know it.
  NvmlDevice device(const std::string& pci_id) const;

  // nvmlX_v2 or nvmlX of nvml.h. Null where the driver is too old to have it, but for those that of_process() insists on.
  int (*device_by_pci_id)(const char*, NvmlDevice*) = nullptr;  // always there
  int (*driver_version)(char*, unsigned) = nullptr;             // always there
  int (*power)(NvmlDevice, unsigned*) = nullptr;                // always there; milliwatts
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;          // always there; milliwatts
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;     // always there; Celsius
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;           // always there; MHz
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;       // MHz
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*slowdown_reasons)(NvmlDevice, unsigned long long*) = nullptr;  // bits: see Reading::slowdowns
  int (*ecc_errors)(NvmlDevice, int, int, unsigned long long*) = nullptr;
  int (*remapped_rows)(NvmlDevice, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*field_values)(NvmlDevice, int, NvmlFieldValue*) = nullptr;
  int (*event_set_create)(NvmlEventSet*) = nullptr;
  int (*event_set_free)(NvmlEventSet) = nullptr;
  int (*register_events)(NvmlDevice, unsigned long long, NvmlEventSet) = nullptr;
  int (*event_set_wait)(NvmlEventSet, NvmlEventData*, unsigned) = nullptr;  // milliseconds

 private:
  NvmlLibrary();
  bool usable_ = false;
};

}  // namespace cohort::gpu
