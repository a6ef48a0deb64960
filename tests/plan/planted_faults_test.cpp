// Faults planted in strategies. A prediction runs the strategy that it predicts, so a fault changes both, and holding the two
// against each other shows nothing: the published numbers must. Each is held against a sound strategy and a faulty one.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/counting_communicator.hpp"
#include "comm/trace.hpp"
#include "parallel/data/bucketed.hpp"
#include "parallel/zero/zero3.hpp"
#include "planned_run.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_kind.hpp"

namespace cohort::test {
namespace {

constexpr int kSharers = 8;

RunConfig deep_run() { return planned_run(1, {"model.tied_head=false", "model.layers=12"}); }

// One unit's weights are gathered a second time.
class GathersTwice : public Zero3 {
 public:
  using Zero3::Zero3;
  void pre_forward(const Unit& unit) override {
    Zero3::pre_forward(unit);
    if (unit.name != "blocks.1") return;
    for (const std::size_t g : groups_of(unit)) gather(groups_[g], groups_[g].compute, groups_[g].own.compute).wait();
  }
};

// Weights stay after forward is done with them.
class KeepsUnits : public Zero3 {
 public:
  using Zero3::Zero3;
  void post_forward(const Unit&) override {}
};

struct Counted {
  CommTrace::Table traffic;
  Bytes buffers = 0;
};

// One micro-batch of a strategy, of a model of 12 blocks of width 64.
template <class Make>
Counted count(const Make& make) {
  const RunConfig config = deep_run();
  const std::vector<std::int32_t> ids(4 * 64);
  const std::vector<Count> slots(4);
  const ModelInput input{4, ids, ids, {}, slots};
  const CountingScope scope;
  const auto group = make_counting_communicator("dp", 0, kSharers);
  const auto model = declare_model(config.model);
  const std::unique_ptr<DataParallel> strategy = make(*model, *group);
  CommTrace trace;
  trace.attach(*group);
  Arena arena("activations");
  const StepContext context{.activations = &arena, .loss_sum = Tensor::zeros("loss", {1}, DType::f64), .training = true};
  StepTimers timers;
  strategy->accumulate_gradients(context, std::span(&input, 1), 1.0f, timers);
  return {trace.totals(), kinds_of_memory(DeviceKind::cpu).kinds[MemoryKind::buffers]};
}

template <class Strategy>
Counted count_zero3() {
  return count([](Model& model, Communicator& group) { return std::make_unique<Strategy>(model, group, ShardOptions{}); });
}

Counted count_buckets(Bytes bytes) {
  return count([=](Model& model, Communicator& group) {
    model.parameters().allocate(1);
    return std::make_unique<Bucketed>(model, group, bytes);
  });
}

Count untied_parameters() { return count_parameters(deep_run().model); }

// Rajbhandari et al. 2020, section 7.2: weights are gathered once forward and once backward, 2 P. The embedding is not needed
// backward, and the head stays from forward to backward.
bool gathers_as_published(const Counted& counted) {
  const Count tables = (96 + 64 + 96) * 64;  // tokens, positions, head
  const Bytes published = (2 * untied_parameters() - tables) * 4;
  const Bytes rounding = 2 * 14 * kSharers * 64 * 4;  // of two gathers of the units
  const Bytes bytes = counted.traffic.at({"dp", "all_gather"}).bytes;
  return bytes >= published - 2 * 2 * 64 * 4 && bytes <= published + rounding;
}

// Section 5.3 and Zhao et al. 2023 (FSDP), section 3.3.2: of the weights a unit and the one that is prefetched are whole at a
// time; of gradients those of the unit at work, and of those that are being reduced.
bool holds_as_published(const Counted& counted) {
  const Count unit = 12 * 64 * 64 + 13 * 64;  // a block
  const Count tables = (96 + 64 + 96) * 64;   // weights and gradients of both ends of the model
  const Count whole_at_once = 2 + 1 + ShardedGradients::kInFlight;
  return counted.buffers <= (whole_at_once * (unit + kSharers * 64) + 2 * tables) * 4;
}

TEST(PlantedFaults, AUnitGatheredTwiceIsCaught) {
  EXPECT_TRUE(gathers_as_published(count_zero3<Zero3>()));
  EXPECT_FALSE(gathers_as_published(count_zero3<GathersTwice>()));
}

TEST(PlantedFaults, UnitsKeptTooLongAreCaught) {
  EXPECT_TRUE(holds_as_published(count_zero3<Zero3>())) << count_zero3<Zero3>().buffers;
  EXPECT_FALSE(holds_as_published(count_zero3<KeepsUnits>())) << count_zero3<KeepsUnits>().buffers;
}

// Traffic does not tell how large buckets are, their number does: between P g / size and one more for each that a large gradient
// makes larger.
TEST(PlantedFaults, BucketsOfAnotherSizeAreCaught) {
  constexpr Bytes kBucket = 64 * kKiB;
  const auto as_asked = [&](const Counted& counted) {
    const CommTrace::Totals& totals = counted.traffic.at({"dp", "all_reduce"});
    EXPECT_EQ(totals.bytes, untied_parameters() * 4);
    const Count most = untied_parameters() * 4 / kBucket + 1;
    // A bucket may be larger by the gradient that fills it, 64 KiB at most here (the feed-forward's matrices).
    return totals.calls <= most && totals.calls >= untied_parameters() * 4 / (2 * kBucket);
  };
  EXPECT_TRUE(as_asked(count_buckets(kBucket)));
  EXPECT_FALSE(as_asked(count_buckets(kBucket / 4)));
  EXPECT_FALSE(as_asked(count_buckets(4 * kBucket)));
}

}  // namespace
}  // namespace cohort::test
