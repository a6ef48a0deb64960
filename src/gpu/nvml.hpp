// What NVIDIA's management library (NVML) says of a GPU at this moment: a card that runs hot or at its power limit lowers its
// clock, which explains a step that became slower; one with memory errors should not begin a long run. The library comes with
// the driver; it is loaded when first asked for, so neither its header nor its presence is needed to build or to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort::gpu {

/// The optional figures are missing where the card or its driver does not tell them.
struct Reading {
  double watts = 0.0;
  double limit_watts = 0.0;
  int celsius = 0;
  int clock_mhz = 0;  // of the multiprocessors
  std::optional<int> memory_clock_mhz;
  // Fractions of the driver's last sampling period (1/6 to 1 s): time in which a kernel ran, in which device memory was busy.
  std::optional<double> busy;
  std::optional<double> memory_busy;
  std::optional<Bytes> memory_used;  // by all processes, and what the driver keeps for itself
  std::optional<Bytes> memory_total;
  std::uint64_t slowdowns = 0;  // why the clock is not at its highest: bits, see slowdown_names()
  // Of all NVLinks together since the driver was loaded. Errors: CRC errors, replays and recoveries.
  std::optional<Bytes> nvlink_sent;
  std::optional<Bytes> nvlink_received;
  std::optional<Count> nvlink_errors;
};

/// Of the GPU at this PCI address; nothing where there is no NVML or it does not answer. Takes up to a few milliseconds.
std::optional<Reading> read_gpu(const std::string& pci_id);

/// "power limit", "heat", ... of Reading::slowdowns: the reasons that cost speed. An idle card and one whose clock was set by a
/// person have a lower clock too; that is not a slowdown, and has no name here.
std::vector<std::string> slowdown_names(std::uint64_t slowdowns);
/// True for reasons that no healthy card shows: the hardware itself slows down, for heat or for a failing power supply. A card at
/// its power limit, in contrast, does what it was made for.
bool is_fault(std::uint64_t slowdowns);

/// What makes a card unfit for a long run.
struct Health {
  std::optional<Count> uncorrected_errors;  // of memory (ECC), since the driver was loaded
  std::optional<Count> remapped_rows;       // of memory, replaced by spare ones over the card's life
  bool remap_pending = false;               // a row waits for a reset of the card to be replaced
  bool remap_failed = false;                // there was no spare row left
  std::optional<int> max_clock_mhz;         // of the multiprocessors
};
std::optional<Health> read_health(const std::string& pci_id);

/// "580.65.06", or "" without NVML.
std::string driver_version();

}  // namespace cohort::gpu
