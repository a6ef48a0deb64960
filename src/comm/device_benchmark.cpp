#include "comm/device_benchmark.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "comm/benchmark.hpp"
#include "comm/consensus.hpp"
#include "comm/nccl_communicator.hpp"
#include "gpu/device.hpp"
#include "gpu/stopwatch.hpp"

namespace cohort {
namespace {

constexpr Bytes kDeviceElementBytes = sizeof(float);

struct Release {
  void operator()(float* memory) const noexcept { gpu::release(memory); }
};
using DeviceFloats = std::unique_ptr<float[], Release>;

DeviceFloats device_floats(Bytes bytes, const char* label) {
  return DeviceFloats(static_cast<float*>(gpu::allocate(bytes, label)));
}

/// The buffers of one message size. `in` holds what a rank gives, `out` what it gets; the all-reduce works in `in` alone.
struct Message {
  float* in;
  float* out;
  Count block_elements;  // the buffer has size() of them
};

AllReduceBenchmark sizes_of(const DeviceBenchmark& benchmark) {
  return {.min_bytes = benchmark.min_bytes, .max_bytes = benchmark.max_bytes, .repeats = benchmark.repeats};
}

void run(DeviceCollective collective, Communicator& device, const Message& message) {
  switch (collective) {
    case DeviceCollective::all_reduce:
      device.all_reduce(message.in, message.block_elements * device.size(), DType::f32, ReduceOp::sum);
      return;
    case DeviceCollective::reduce_scatter:
      device.reduce_scatter(message.in, message.out, message.block_elements, DType::f32, ReduceOp::sum);
      return;
    case DeviceCollective::all_gather:
      device.all_gather(message.in, message.out, message.block_elements, DType::f32);
      return;
  }
}

/// Small whole numbers: their sum over ranks is exact in fp32 in any order.
float device_input_value(int rank, Count i) { return static_cast<float>(rank % 8) + static_cast<float>(i % 251); }

/// What element i of the result must be on `rank` of n; `ranks_part` is the sum over ranks of device_input_value(r, 0).
float expected_value(DeviceCollective collective, int rank, int n, Count block_elements, float ranks_part, Count i) {
  if (collective == DeviceCollective::all_gather)
    return device_input_value(static_cast<int>(i / block_elements), i % block_elements);
  const Count place = collective == DeviceCollective::reduce_scatter ? rank * block_elements + i : i;
  return ranks_part + static_cast<float>(n) * device_input_value(0, place);
}

/// Runs the collective once on known numbers and checks its result. // Collective over: host
void check_result(DeviceCollective collective, Communicator& device, Communicator& host, const Message& message) {
  const int n = device.size();
  const Count whole = message.block_elements * n;
  std::vector<float> values(static_cast<std::size_t>(whole));
  for (Count i = 0; i < whole; ++i) values[static_cast<std::size_t>(i)] = device_input_value(device.rank(), i);
  gpu::copy(message.in, values.data(), whole * kDeviceElementBytes);
  run(collective, device, message);
  gpu::synchronize(check_nccl_progress);
  const bool in_place = collective == DeviceCollective::all_reduce;
  const Count results = collective == DeviceCollective::reduce_scatter ? message.block_elements : whole;
  gpu::copy(values.data(), in_place ? message.in : message.out, results * kDeviceElementBytes);
  float ranks_part = 0.0f;
  for (int r = 0; r < n; ++r) ranks_part += device_input_value(r, 0);
  fail_together(host, "checking a collective before timing it", [&] {
    for (Count i = 0; i < results; ++i) {
      const float expected = expected_value(collective, device.rank(), n, message.block_elements, ranks_part, i);
      const float value = values[static_cast<std::size_t>(i)];
      if (value == expected) continue;
      fail(ExitCode::internal, "{} of {} elements: element {} is {}, expected {}", name_of(collective), whole, i, value,
           expected);
    }
  });
}

/// Seconds of one operation on this rank: a barrier, then `calls` in a row. // Collective over: host
double time_device_once(DeviceCollective collective, Communicator& device, Communicator& host, const Message& message,
                        int calls) {
  gpu::Stopwatch stopwatch;
  host.barrier();
  stopwatch.start();
  for (int call = 0; call < calls; ++call) run(collective, device, message);
  stopwatch.stop();
  gpu::synchronize(check_nccl_progress);
  return stopwatch.seconds() / calls;
}

DeviceTiming measure(DeviceCollective collective, Communicator& device, Communicator& host, const Message& message, int repeats) {
  check_result(collective, device, host, message);
  const double n = device.size();
  const Bytes bytes = message.block_elements * device.size() * kDeviceElementBytes;
  gpu::zero_async(message.in, bytes, gpu::compute_stream());  // zeros stay zeros, however often they are summed
  const int calls = bytes <= 4 * kMiB ? 20 : 5;
  const double warm_up = all_reduce_value(host, time_device_once(collective, device, host, message, calls), ReduceOp::max);
  if (repeats == 0) repeats = choose_repeats(warm_up * calls);
  const double seconds =
      median_of_slowest(host, repeats, [&] { return time_device_once(collective, device, host, message, calls); });
  const double factor = collective == DeviceCollective::all_reduce ? 2.0 : 1.0;
  return {bytes, collective, repeats, seconds, factor * (n - 1.0) / n * static_cast<double>(bytes) / seconds};
}

}  // namespace

std::string_view name_of(DeviceCollective collective) {
  constexpr std::array<std::string_view, 3> kNames{"all_reduce", "reduce_scatter", "all_gather"};
  return kNames[static_cast<std::size_t>(collective)];
}

void check(const DeviceBenchmark& benchmark) { check(sizes_of(benchmark)); }

void run_device_benchmark(Communicator& device, Communicator& host, const DeviceBenchmark& benchmark,
                          const std::function<void(const std::vector<DeviceTiming>&)>& on_size) {
  check(benchmark);
  const Count n = device.size();
  const auto block_elements = [n](Bytes bytes) {
    return (bytes / kDeviceElementBytes + n - 1) / n;
  };  // the buffer rounded up to n blocks
  const Bytes buffer_bytes = block_elements(benchmark.max_bytes) * n * kDeviceElementBytes;
  DeviceFloats in;
  DeviceFloats out;
  fail_together(host, "making the message buffers", [&] {
    in = device_floats(buffer_bytes, "the message that is sent");
    out = device_floats(buffer_bytes, "the message that is received");
  });
  for (const Bytes bytes : message_sizes(sizes_of(benchmark))) {
    std::vector<DeviceTiming> timings;
    for (const DeviceCollective collective : kDeviceCollectives) {
      timings.push_back(measure(collective, device, host, {in.get(), out.get(), block_elements(bytes)}, benchmark.repeats));
    }
    on_size(timings);
  }
}

}  // namespace cohort
