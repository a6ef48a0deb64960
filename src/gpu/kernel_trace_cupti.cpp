// CUPTI's activity interface: the driver fills buffers of records, which it asks for and hands back from a thread of its own.
#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>

#include "gpu/kernel_trace.hpp"
#include "observe/clock.hpp"

namespace cohort::gpu {
namespace {

constexpr std::size_t kBufferBytes = 8 << 20;  // some 50,000 kernels
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

// What the records said so far, with CUPTI's times. The driver's thread adds to it.
std::mutex records_mutex;
std::vector<DeviceWork> records;

std::string readable(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : mangled;
  constexpr std::size_t kMost = 120;  // templates may go on for pages
  if (name.starts_with("void ")) name.erase(0, 5);
  if (name.size() > kMost) name = name.substr(0, kMost) + "...";
  return name;
}

const char* name_of_copy(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy on the device";
    default:
      return "copy";
  }
}

template <class Record>
void take(const CUpti_Activity* activity, std::string name) {
  const auto* record = reinterpret_cast<const Record*>(activity);
  if (record->end == 0) return;  // CUPTI could not tell
  const std::lock_guard lock(records_mutex);
  records.push_back({std::move(name), 1e-9 * static_cast<double>(record->start), 1e-9 * static_cast<double>(record->end),
                     static_cast<int>(record->streamId)});
}

// The layouts of these records have grown at their ends, so those of CUDA 12 read later ones, too.
void take_record(const CUpti_Activity* activity) {
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      take<CUpti_ActivityKernel9>(activity, readable(reinterpret_cast<const CUpti_ActivityKernel9*>(activity)->name));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      take<CUpti_ActivityMemcpy5>(activity, name_of_copy(reinterpret_cast<const CUpti_ActivityMemcpy5*>(activity)->copyKind));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      take<CUpti_ActivityMemset3>(activity, "set memory");
      break;
    default:
      break;
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take_record(record);
  std::free(buffer);
}

std::string words_of(CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return fmt::format("CUPTI: {}", text == nullptr ? "unknown error" : text);
}

// Seconds of the host's steady clock less CUPTI's: of some tries the one in which the clock was read the quickest.
double clock_difference() {
  constexpr int kTries = 20;
  double best = std::numeric_limits<double>::infinity(), difference = 0.0;
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t there = 0;
    const double before = steady_seconds();
    cuptiGetTimestamp(&there);
    const double after = steady_seconds();
    if (after - before >= best) continue;
    best = after - before;
    difference = 0.5 * (before + after) - 1e-9 * static_cast<double>(there);
  }
  return difference;
}

void disable_all() {
  for (const CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
}

}  // namespace

KernelTrace::~KernelTrace() {
  if (runs_) disable_all();
}

std::string KernelTrace::begin() {
  {
    const std::lock_guard lock(records_mutex);
    records.clear();
  }
  CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : kKinds) {
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  }
  runs_ = result == CUPTI_SUCCESS;
  if (!runs_) disable_all();
  return runs_ ? "" : words_of(result);
}

std::vector<DeviceWork> KernelTrace::end() {
  if (!runs_) return {};
  runs_ = false;
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  disable_all();
  const double shift = clock_difference();
  const std::lock_guard lock(records_mutex);
  for (DeviceWork& work : records) {
    work.begin += shift;
    work.end += shift;
  }
  return std::move(records);
}

}  // namespace cohort::gpu
