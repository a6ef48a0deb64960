#include <algorithm>
#include <cmath>
#include <memory>

#include "comm/benchmark.hpp"
#include "gpu/device.hpp"
#include "observe/clock.hpp"
#include "ops/linear.hpp"
#include "plan/calibrate.hpp"
#include "tensor/tensor.hpp"

namespace cohort {
namespace {

constexpr Bytes kSmallest = kKiB;
Bytes largest_of(DeviceKind device) { return device == DeviceKind::gpu ? 256 * kMiB : 16 * kMiB; }

void settle(DeviceKind device) {
  if (device == DeviceKind::gpu) gpu::synchronize();
}

class LinkMeter {
 public:
  LinkMeter(const Calibration& calibration, Communicator& group, int nodes)
      : calibration_(calibration),
        group_(group),
        nodes_(nodes),
        memory_(Tensor::zeros("calibration", {2 * largest_of(calibration.device) / size_of(DType::f32)}, DType::f32,
                              calibration.device)),
        other_(Tensor::zeros("calibration", memory_.shape(), DType::f32, calibration.device)) {}

  std::vector<CollectiveSample> measure() {
    std::vector<CollectiveSample> samples;
    for (Bytes bytes = kSmallest; bytes <= largest_of(calibration_.device); bytes *= 8) {
      const Count elements = std::max<Count>(1, bytes / size_of(DType::f32) / group_.size());  // of a block
      const Bytes whole = elements * group_.size() * size_of(DType::f32);
      const auto add = [&](const char* operation, Bytes of, const std::function<void()>& call) {
        samples.push_back({operation, group_.size(), nodes_, of, time(call)});
      };
      add("all_reduce", whole,
          [&] { group_.all_reduce(next(whole).raw(), whole / size_of(DType::f32), DType::f32, ReduceOp::sum); });
      add("reduce_scatter", whole, [&] {
        const Tensor data = next(whole);
        group_.reduce_scatter(data.raw(), own_block(data, elements), elements, DType::f32, ReduceOp::sum);
      });
      add("all_gather", whole, [&] {
        const Tensor data = next(whole);
        group_.all_gather(own_block(data, elements), data.raw(), elements, DType::f32);
      });
      add("recv", whole, [&] { pass_on(next(whole)); });
    }
    return samples;
  }

 private:
  // Another part of the memory each time: what a step sends is as a rule not in the caches of those who get it.
  Tensor next(Bytes bytes) {
    const Count elements = bytes / size_of(DType::f32);
    if (at_ + elements > memory_.elements()) at_ = 0;
    const Tensor part = memory_.slice(at_, at_ + elements);
    at_ += elements;
    return part;
  }
  void* own_block(const Tensor& data, Count elements) const {
    return data.slice(group_.rank() * elements, (group_.rank() + 1) * elements).raw();
  }

  // Every rank sends to the next one.
  void pass_on(const Tensor& data) {
    const int next = (group_.rank() + 1) % group_.size(), before = (group_.rank() + group_.size() - 1) % group_.size();
    Request sent = group_.send_async(data.raw(), data.elements(), DType::f32, next);
    group_.recv(other_.raw(), data.elements(), DType::f32, before);
    sent.wait();
  }

  // In a step ranks come to a collective from their work, and not all at once. So on CPUs some work comes before each call, and
  // its own time is taken off; on a GPU the host runs ahead, and only the streams wait.
  double time(const std::function<void()>& call) {
    const bool works = calibration_.device == DeviceKind::cpu;
    const auto once = [&](int calls, bool communicates) {
      settle(calibration_.device);
      calibration_.world.barrier();
      const double begin = steady_seconds();
      for (int i = 0; i < calls; ++i) {
        if (works) ops::linear_forward({}, product_, factor_, factor_);
        if (communicates) call();
      }
      settle(calibration_.device);
      return (steady_seconds() - begin) / calls;
    };
    once(1, true);
    const double first = all_reduce_value(calibration_.world, once(1, true), ReduceOp::max);
    const int calls = std::clamp(static_cast<int>(4e-3 / std::max(first, 1e-7)), 2, 50), repeats = choose_repeats(first * calls);
    const double all = median_of_slowest(calibration_.world, repeats, [&] { return once(calls, true); });
    if (!works) return all;
    const double work = median_of_slowest(calibration_.world, repeats, [&] { return once(calls, false); });
    return std::max(all - work, 0.02 * all);
  }

  const Calibration& calibration_;
  Communicator& group_;
  int nodes_;
  Tensor memory_, other_;
  Count at_ = 0;  // in memory_
  Tensor factor_ = Tensor::zeros("calibration", {128, 128}), product_ = Tensor::zeros("calibration", {128, 128});
};

// From all-gathers of the fewest and of the most bytes.
LinkRates rates_of(const std::vector<CollectiveSample>& samples) {
  LinkRates rates;
  Bytes most = 0;
  for (const CollectiveSample& one : samples) {
    if (one.operation != "all_gather") continue;
    const double n = one.ranks;
    if (rates.hop == 0.0) rates.hop = one.seconds / (n - 1.0);
    if (one.bytes <= most) continue;
    most = one.bytes;
    rates.bytes_per_second = (n - 1.0) / n * static_cast<double>(one.bytes) / one.seconds;
  }
  return rates;
}

// Work beside a collective of about the same time, as a step does it: started, polled between ops, waited for.
double hidden_share(const Calibration& calibration) {
  constexpr Count kSize = 256;
  const Bytes bytes = calibration.device == DeviceKind::gpu ? 64 * kMiB : 2 * kMiB;
  const ops::Exec exec{.device = calibration.device};
  const DType dtype = calibration.types.front().dtype;
  const auto made = [&](const Shape& shape, DType type) { return Tensor::zeros("calibration", shape, type, calibration.device); };
  const Count rows = calibration.device == DeviceKind::gpu ? 16384 : kSize;
  const Tensor x = made({rows, kSize}, dtype), y = made({rows, kSize}, dtype), weight = made({kSize, kSize}, dtype);
  const Tensor message = made({bytes / size_of(DType::f32)}, DType::f32);
  const auto start = [&] {
    return calibration.tensors.all_reduce_async(message.raw(), message.elements(), DType::f32, ReduceOp::sum);
  };
  const auto work = [&] { ops::linear_forward(exec, y, x, weight); };
  const auto median = [&](const std::function<void()>& call) {
    return median_of_slowest(calibration.world, 9, [&] {
      settle(calibration.device);
      calibration.world.barrier();
      const double begin = steady_seconds();
      call();
      settle(calibration.device);
      return steady_seconds() - begin;
    });
  };
  work();
  const double moving = median([&] { start().wait(); });
  const double product = median([&] {
                           for (int i = 0; i < 8; ++i) work();
                         }) /
                         8.0;
  const int products = std::max(1, static_cast<int>(std::lround(moving / product)));
  const auto computing = [&](Request* request) {
    for (int i = 0; i < products; ++i) {
      work();
      if (request != nullptr) request->test();
    }
  };
  const double alone = median([&] { computing(nullptr); });
  const double together = median([&] {
    Request request = start();
    computing(&request);
    request.wait();
  });
  return std::clamp((moving + alone - together) / std::min(moving, alone), 0.0, 1.0);
}

}  // namespace

void measure_links(const Calibration& calibration, MachineProfile& profile) {
  const int ranks = calibration.world.size(), ranks_of_node = ranks / calibration.nodes;
  if (ranks == 1) return;
  const auto measure = [&](Communicator& group, int nodes) {
    const std::vector<CollectiveSample> samples = LinkMeter(calibration, group, nodes).measure();
    profile.collectives.insert(profile.collectives.end(), samples.begin(), samples.end());
    return rates_of(samples);
  };
  if (calibration.nodes == 1) {
    calibration.progress("collectives inside a node");
    profile.node = measure(calibration.tensors, 1);
  } else {
    if (ranks_of_node > 1) {
      calibration.progress("collectives inside a node");
      const auto node = calibration.tensors.split_by([&](int rank) { return rank / ranks_of_node; }, "node");
      profile.node = measure(*node, 1);
    }
    calibration.progress("collectives between nodes");
    const auto across = calibration.tensors.split_by([&](int rank) { return rank % ranks_of_node; }, "across");
    profile.network = measure(*across, calibration.nodes);
    if (ranks_of_node == 1) profile.node = profile.network;
  }
  calibration.progress("collectives beside work");
  profile.hidden = hidden_share(calibration);
}

double measure_host_copies(const Calibration& calibration) {
  const Bytes bytes = largest_of(calibration.device);
  const Tensor host = Tensor::pinned("calibration", {bytes}, DType::u8);
  const Tensor other = Tensor::zeros("calibration", {bytes}, DType::u8, calibration.device);
  calibration.progress("copies between device and host");
  const auto seconds_of = [&](const Tensor& to, const Tensor& from) {
    to.copy_from(from);
    return median_of_slowest(calibration.world, 9, [&] {
      settle(calibration.device);
      calibration.world.barrier();
      const double begin = steady_seconds();
      to.copy_from(from);
      settle(calibration.device);
      return steady_seconds() - begin;
    });
  };
  return static_cast<double>(bytes) / std::max(seconds_of(host, other), seconds_of(other, host));
}

MachineProfile calibrate(const Calibration& calibration) {
  MachineProfile profile;
  profile.measured = true;
  profile.device = calibration.device;
  profile.ranks_per_node = calibration.world.size() / calibration.nodes;
  profile.ops = measure_ops(calibration);
  measure_links(calibration, profile);
  profile.host_bytes_per_second = measure_host_copies(calibration);
  return profile;
}

}  // namespace cohort
