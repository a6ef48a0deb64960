// Builds without CUDA: there is never a device, nor anything to measure.
#include "base/counting.hpp"
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "gpu/graph.hpp"
#include "gpu/links.hpp"
#include "gpu/memory_probe.hpp"
#include "gpu/nvtx_ranges.hpp"

namespace cohort::gpu {
namespace {

[[noreturn]] void fail_without_device() { fail(ExitCode::launch, "{}", why_no_device()); }

// What a thread that counts may do without a device.
void need_device_unless_counting() {
  if (!counting()) fail_without_device();
}

}  // namespace

bool built() { return false; }
std::optional<RangeTool> nvtx_range_tool() { return std::nullopt; }
int visible_devices() { return 0; }
std::string why_no_device() {
  return "this build of Cohort has no CUDA: configure with the preset cuda, or set device.kind = \"cpu\"";
}
DeviceFacts describe(int) { fail_without_device(); }
void open(int) { fail_without_device(); }
bool is_open() { return false; }
const DeviceFacts& facts() { fail_without_device(); }
void close() {}
Stream compute_stream() {
  need_device_unless_counting();
  return nullptr;
}
Stream communication_stream() {
  need_device_unless_counting();
  return nullptr;
}
Stream copy_stream() {
  need_device_unless_counting();
  return nullptr;
}
MemoryInfo memory() { fail_without_device(); }
void* allocate(Bytes, const std::string&) { fail_without_device(); }
void release(void*) noexcept {}
void* allocate_pinned(Bytes, const std::string&) { fail_without_device(); }
void release_pinned(void*) noexcept {}
void* workspace() { fail_without_device(); }
void zero_async(void*, Bytes, Stream) { need_device_unless_counting(); }
void copy_async(void*, const void*, Bytes, Stream) { need_device_unless_counting(); }
void copy(void*, const void*, Bytes) { need_device_unless_counting(); }
Event::Event(Kind) { need_device_unless_counting(); }
Event::~Event() = default;
void Event::record(Stream) { need_device_unless_counting(); }
void Event::order(Stream) const { need_device_unless_counting(); }
bool Event::happened() const {
  need_device_unless_counting();
  return true;
}
void Event::wait() const { need_device_unless_counting(); }
double milliseconds_between(const Event&, const Event&) { fail_without_device(); }
void synchronize(const std::function<void()>&) { need_device_unless_counting(); }
void check_launch(const char*) { fail_without_device(); }
Graph::~Graph() = default;
void Graph::record(const std::function<void()>&) { fail_without_device(); }
void Graph::launch() const { fail_without_device(); }
DeviceSpeeds measure_device(int, Bytes, const std::function<void()>&) { fail_without_device(); }
bool has_peer_access(int, int) { fail_without_device(); }
double measure_pair(int, int, Bytes) { fail_without_device(); }
Bytes largest_allocation() { fail_without_device(); }

}  // namespace cohort::gpu
