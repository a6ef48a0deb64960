#include "gpu/gpu_sampler.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include "gpu/xid_listener.hpp"

namespace cohort::gpu {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);
// Nobody has asked for an hour: the older half goes, so that a run that never reports does not grow.
constexpr std::size_t kMostReadings = 3600;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::optional<Spread> spread_of(const std::vector<TimedReading>& readings,
                                const std::function<std::optional<double>(const Reading&)>& figure) {
  std::optional<Spread> spread;
  double sum = 0.0;
  int count = 0;
  for (const TimedReading& timed : readings) {
    const std::optional<double> value = figure(timed.reading);
    if (!value) continue;
    if (!spread) spread = Spread{*value, 0.0, *value};
    spread->min = std::min(spread->min, *value);
    spread->max = std::max(spread->max, *value);
    sum += *value;
    ++count;
  }
  if (spread) spread->mean = sum / count;
  return spread;
}

template <class Number>
std::optional<double> as_double(const std::optional<Number>& number) {
  return number ? std::optional<double>(static_cast<double>(*number)) : std::nullopt;
}

// What only counts up, between two readings. A driver that was loaded anew begins at 0: then nothing is known.
std::optional<Count> growth(const std::optional<std::int64_t>& from, const std::optional<std::int64_t>& to) {
  return from && to && *to >= *from ? std::optional<Count>(*to - *from) : std::nullopt;
}

}  // namespace

GpuSummary summarise(const std::optional<TimedReading>& before, const std::vector<TimedReading>& readings) {
  GpuSummary summary;
  if (readings.empty()) return summary;
  summary.samples = static_cast<int>(readings.size());
  summary.watts = spread_of(readings, [](const Reading& r) { return std::optional(r.watts); });
  summary.celsius = spread_of(readings, [](const Reading& r) { return std::optional(static_cast<double>(r.celsius)); });
  summary.clock_mhz = spread_of(readings, [](const Reading& r) { return std::optional(static_cast<double>(r.clock_mhz)); });
  summary.memory_clock_mhz = spread_of(readings, [](const Reading& r) { return as_double(r.memory_clock_mhz); });
  summary.busy = spread_of(readings, [](const Reading& r) { return r.busy; });
  summary.memory_busy = spread_of(readings, [](const Reading& r) { return r.memory_busy; });
  summary.memory_used = spread_of(readings, [](const Reading& r) { return as_double(r.memory_used); });
  summary.memory_total = readings.back().reading.memory_total;
  for (const TimedReading& timed : readings) summary.slowdowns |= timed.reading.slowdowns;
  const TimedReading& first = before ? *before : readings.front();
  const TimedReading& last = readings.back();
  if (last.seconds <= first.seconds) return summary;
  const auto sent = growth(first.reading.nvlink_sent, last.reading.nvlink_sent);
  const auto received = growth(first.reading.nvlink_received, last.reading.nvlink_received);
  if (sent && received) {
    summary.nvlink_bytes_per_second = static_cast<double>(*sent + *received) / (last.seconds - first.seconds);
  }
  summary.nvlink_errors = growth(first.reading.nvlink_errors, last.reading.nvlink_errors);
  return summary;
}

GpuSampler::GpuSampler(std::string pci_id) : pci_id_(std::move(pci_id)), thread_([this] { run(); }) {}

GpuSampler::~GpuSampler() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

GpuSummary GpuSampler::take() {
  const std::scoped_lock lock(mutex_);
  GpuSummary summary = readings_.empty() && before_ ? summarise(std::nullopt, {*before_}) : summarise(before_, readings_);
  if (!readings_.empty()) before_ = readings_.back();
  readings_.clear();
  summary.xids = std::move(xids_);
  xids_.clear();
  return summary;
}

void GpuSampler::run() {
  XidListener listener(pci_id_);
  while (true) {
    const std::optional<Reading> reading = read_gpu(pci_id_);
    const std::optional<int> xid = listener.next();
    std::unique_lock lock(mutex_);
    if (!reading && !xid && !before_ && readings_.empty()) return;  // there is no NVML
    if (reading) readings_.push_back({now(), *reading});
    if (xid) xids_.push_back(*xid);
    if (readings_.size() > kMostReadings) readings_.erase(readings_.begin(), readings_.begin() + kMostReadings / 2);
    if (ending_changed_.wait_for(lock, kInterval, [this] { return ending_; })) return;
  }
}

}  // namespace cohort::gpu
