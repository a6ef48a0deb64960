// What the device runs, kernel by kernel, copy by copy: through CUPTI, NVIDIA's profiling interface, where the toolkit had it at
// the build (kernel_trace_cupti.cpp) and the driver lets this process use it. Else there is nothing; a trace then has the
// device's times by layer, of events.
#pragma once

#include <string>
#include <vector>

namespace cohort::gpu {

struct DeviceWork {
  std::string name;               // of the kernel, as written in its source; "copy to the device", "set memory", ...
  double begin = 0.0, end = 0.0;  // seconds of the host's steady clock
  int stream = 0;                 // CUPTI's number
};

class KernelTrace {
 public:
  KernelTrace() = default;
  /// Stops, if it runs.
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  /// Starts; the device must be idle. "" or why nothing is traced. One at a time in a process.
  std::string begin();
  /// Stops. The device must be idle. What has run since begin(), in no order; nothing if it never began.
  std::vector<DeviceWork> end();

 private:
  [[maybe_unused]] bool runs_ = false;
};

}  // namespace cohort::gpu
