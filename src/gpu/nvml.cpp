#include "gpu/nvml.hpp"

#include <array>
#include <limits>

#include "gpu/nvml_library.hpp"

namespace cohort::gpu {
namespace {

constexpr int kTemperatureOfGpu = 0;
constexpr int kClockOfMultiprocessors = 1;
constexpr int kClockOfMemory = 2;
constexpr int kUncorrected = 1;
constexpr int kSinceDriverLoad = 0;
constexpr unsigned kAllLinks = std::numeric_limits<unsigned>::max();

// nvmlClocksEventReason* of nvml.h.
constexpr std::uint64_t kPowerCap = 0x4, kHardware = 0x8, kSoftwareHeat = 0x20, kHardwareHeat = 0x40, kPowerBrake = 0x80;

// NVML_FI_DEV_NVLINK_* of nvml.h.
enum NvlinkField : std::size_t { sent, received, flit_crc, data_crc, replay, recovery };
constexpr std::array<unsigned, 6> kNvlinkFields{138, 139, 38, 45, 52, 59};

// The number of a field, of whatever type it is (nvmlValueType_t); nothing if it could not be read.
std::optional<std::int64_t> field_number(const NvmlFieldValue& value) {
  if (value.result != NvmlLibrary::kSuccess) return std::nullopt;
  switch (value.type) {
    case 0:
      return static_cast<std::int64_t>(value.value.as_double);
    case 1:
      return value.value.as_unsigned;
    case 2:
      return static_cast<std::int64_t>(value.value.as_unsigned_long);
    case 3:
    case 4:
      return static_cast<std::int64_t>(value.value.as_unsigned_long_long);
    default:
      return std::nullopt;
  }
}

void read_nvlink(const NvmlLibrary& nvml, NvmlDevice device, Reading& reading) {
  if (nvml.field_values == nullptr) return;
  std::array<NvmlFieldValue, kNvlinkFields.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].field = kNvlinkFields[i];
    // The counters of errors are totals already, and ask for no link.
    values[i].scope = i <= NvlinkField::received ? kAllLinks : 0;
  }
  if (nvml.field_values(device, static_cast<int>(values.size()), values.data()) != NvmlLibrary::kSuccess) return;
  if (const auto kibibytes = field_number(values[NvlinkField::sent])) reading.nvlink_sent = *kibibytes * kKiB;
  if (const auto kibibytes = field_number(values[NvlinkField::received])) reading.nvlink_received = *kibibytes * kKiB;
  for (std::size_t i = NvlinkField::flit_crc; i < values.size(); ++i) {
    if (const auto errors = field_number(values[i])) reading.nvlink_errors = reading.nvlink_errors.value_or(0) + *errors;
  }
}

void read_optional_figures(const NvmlLibrary& nvml, NvmlDevice device, Reading& reading) {
  unsigned mhz = 0;
  if (nvml.clock(device, kClockOfMemory, &mhz) == NvmlLibrary::kSuccess) reading.memory_clock_mhz = static_cast<int>(mhz);
  NvmlUtilization use{};
  if (nvml.utilization != nullptr && nvml.utilization(device, &use) == NvmlLibrary::kSuccess) {
    reading.busy = 0.01 * use.gpu_percent;
    reading.memory_busy = 0.01 * use.memory_percent;
  }
  NvmlMemory memory{};
  if (nvml.memory != nullptr && nvml.memory(device, &memory) == NvmlLibrary::kSuccess) {
    reading.memory_used = static_cast<Bytes>(memory.used);
    reading.memory_total = static_cast<Bytes>(memory.total);
  }
  unsigned long long reasons = 0;
  if (nvml.slowdown_reasons != nullptr && nvml.slowdown_reasons(device, &reasons) == NvmlLibrary::kSuccess) {
    reading.slowdowns = reasons;
  }
  read_nvlink(nvml, device, reading);
}

}  // namespace

std::optional<Reading> read_gpu(const std::string& pci_id) {
  const NvmlLibrary* nvml = NvmlLibrary::of_process();
  const NvmlDevice device = nvml != nullptr ? nvml->device(pci_id) : nullptr;
  if (device == nullptr) return std::nullopt;
  unsigned milliwatts = 0;
  unsigned limit_milliwatts = 0;
  unsigned celsius = 0;
  unsigned mhz = 0;
  constexpr int kSuccess = NvmlLibrary::kSuccess;
  if (nvml->power(device, &milliwatts) != kSuccess || nvml->power_limit(device, &limit_milliwatts) != kSuccess ||
      nvml->temperature(device, kTemperatureOfGpu, &celsius) != kSuccess ||
      nvml->clock(device, kClockOfMultiprocessors, &mhz) != kSuccess) {
    return std::nullopt;
  }
  Reading reading;
  reading.watts = 1e-3 * milliwatts;
  reading.limit_watts = 1e-3 * limit_milliwatts;
  reading.celsius = static_cast<int>(celsius);
  reading.clock_mhz = static_cast<int>(mhz);
  read_optional_figures(*nvml, device, reading);
  return reading;
}

std::vector<std::string> slowdown_names(std::uint64_t slowdowns) {
  std::vector<std::string> names;
  if ((slowdowns & kPowerCap) != 0) names.emplace_back("power limit");
  if ((slowdowns & kSoftwareHeat) != 0) names.emplace_back("heat");
  if ((slowdowns & kHardwareHeat) != 0) names.emplace_back("heat (hardware)");
  if ((slowdowns & kPowerBrake) != 0) names.emplace_back("power brake");
  // The hardware sets this bit beside the two that say why.
  if ((slowdowns & kHardware) != 0 && (slowdowns & (kHardwareHeat | kPowerBrake)) == 0) names.emplace_back("hardware");
  return names;
}

bool is_fault(std::uint64_t slowdowns) { return (slowdowns & (kHardware | kHardwareHeat | kPowerBrake)) != 0; }

std::optional<Health> read_health(const std::string& pci_id) {
  const NvmlLibrary* nvml = NvmlLibrary::of_process();
  const NvmlDevice device = nvml != nullptr ? nvml->device(pci_id) : nullptr;
  if (device == nullptr) return std::nullopt;
  constexpr int kSuccess = NvmlLibrary::kSuccess;
  Health health;
  unsigned long long errors = 0;
  if (nvml->ecc_errors != nullptr && nvml->ecc_errors(device, kUncorrected, kSinceDriverLoad, &errors) == kSuccess) {
    health.uncorrected_errors = static_cast<Count>(errors);
  }
  unsigned for_corrected = 0, for_uncorrected = 0, pending = 0, failed = 0;
  if (nvml->remapped_rows != nullptr &&
      nvml->remapped_rows(device, &for_corrected, &for_uncorrected, &pending, &failed) == kSuccess) {
    health.remapped_rows = static_cast<Count>(for_corrected) + for_uncorrected;
    health.remap_pending = pending != 0;
    health.remap_failed = failed != 0;
  }
  unsigned mhz = 0;
  if (nvml->max_clock != nullptr && nvml->max_clock(device, kClockOfMultiprocessors, &mhz) == kSuccess) {
    health.max_clock_mhz = static_cast<int>(mhz);
  }
  return health;
}

std::string driver_version() {
  const NvmlLibrary* nvml = NvmlLibrary::of_process();
  char version[80] = "";  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  if (nvml == nullptr || nvml->driver_version(version, sizeof version) != NvmlLibrary::kSuccess) return "";
  return version;
}

}  // namespace cohort::gpu
