// What GPUs can do at most, by their makers' data sheets: what a run's speed is compared with, and what a plan for GPUs that are
// not there starts from. One table for both, in device_peaks.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// How far real programs stay below the data sheet differs by generation (plan/datasheet_profile.cpp).
enum class GpuGeneration { volta, ampere, hopper, blackwell };

struct Datasheet {
  std::string_view name;  // a part of the driver's name: "H100"
  GpuGeneration generation;
  // TFLOP/s of dense products with boost clocks and sums in fp32. 0: the device has no such units.
  double eight_bits, sixteen_bits, tf32, fp32;
  double memory_gib;          // of the device
  double memory_gb_per_s;     // its bandwidth
  double link_gb_per_s;       // to other GPUs of its node, in one direction: NVLink, or PCI Express where there is none
  double network_gbit_per_s;  // to other nodes, for each GPU, in the systems that the maker describes
  double clock = 1.0;         // under load, as a share of what the generation keeps: less where power is limited

  /// FLOP/s in the type that `policy` (precision.policy) multiplies in: "fp32", "tf32", "bf16", "fp16", "fp8". Nothing if it has
  /// no such units.
  std::optional<double> flops(std::string_view policy) const;
};

/// The policy whose rate MFU is a share of: its own; of "fp8" that of bf16, in which attention and the vocabulary's product stay,
/// and beside which fp8 is judged.
std::string_view utilisation_policy(std::string_view policy);

/// That of a device by its name as the driver gives it ("NVIDIA H100 80GB HBM3"). Null for a device that the table does not have,
/// and for a part of one (MIG).
const Datasheet* datasheet_of_device(std::string_view device);

/// That of a name in the table, however it is written: "h100", "H100-PCIe", "h100 pcie". Null if there is none.
const Datasheet* datasheet_named(std::string_view name);
/// The names of the table as datasheet_named() takes them: "h100-pcie".
std::vector<std::string> datasheet_names();

/// Floating-point operations a second of dense matrix products on one device of this driver's name, in the type of `policy`.
std::optional<double> datasheet_flops(const std::string& device, const std::string& policy);

}  // namespace cohort
