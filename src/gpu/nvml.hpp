// What NVIDIA's management library (NVML) says of a GPU at this moment: a card that runs hot or at its power limit lowers its
// clock, which explains a step that became slower. The library comes with the driver; it is loaded when first asked for, so
// neither its header nor its presence is needed to build or to run.
#pragma once

#include <optional>
#include <string>

namespace cohort::gpu {

struct Reading {
  double watts = 0.0;
  double limit_watts = 0.0;
  int celsius = 0;
  int clock_mhz = 0;  // of the multiprocessors
};

/// Of the GPU at this PCI address; nothing where there is no NVML or it does not answer. Takes up to a few milliseconds.
std::optional<Reading> read_gpu(const std::string& pci_id);

}  // namespace cohort::gpu
