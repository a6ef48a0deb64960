// Lanes and their copies on the host: what a block keeps is there again for its backward, at the same place, whatever passes came
// between. On a GPU copies run beside work, and a missing order of the streams shows as other values.
#include "nn/activation_offload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/counting_listener.hpp"
#include "support/test_device.hpp"
#include "tensor/counting_scope.hpp"
#include "tensor/memory_account.hpp"

namespace cohort::test {
namespace {

constexpr std::size_t kBlocks = 8;

// All elements have one value.
Tensor filled(Count elements, float value) {
  const Tensor tensor = Tensor::zeros("test", {elements});
  std::fill_n(tensor.f32(), elements, value);
  return tensor.to(test_device(), "test");
}

// A pass of blocks that keep two tensors each. All memory is there before it begins, so that on a GPU the host waits for nothing,
// and work between the copies takes a hundredth of their time.
class Pass {
 public:
  Pass(ActivationOffload& offload, Count elements, float first)
      : offload_(offload), elements_(elements), first_(first), garbage_(filled(elements, -1.0f)) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      sources_[i] = filled(elements, value(i));
      for (Tensor& read : reads_[i]) read = filled(elements, 0.0f);
    }
  }

  void forward() {
    offload_.open(0);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      for (Tensor& tensor : kept_[i]) {
        tensor = offload_.lane(i).take({elements_});
        tensor.copy_from(sources_[i]);
      }
      if (i + 1 < kBlocks) offload_.open(i + 1);
      offloaded_[i] = offload_.keep(i);
    }
  }
  void backward() {
    for (std::size_t i = kBlocks; i-- > 0;) {
      for (std::size_t ahead = 0; ahead < ActivationOffload::kLanes && ahead <= i; ++ahead) offload_.fetch(offloaded_[i - ahead]);
      offload_.await(offloaded_[i]);
      for (std::size_t t = 0; t < 2; ++t) {
        reads_[i][t].copy_from(kept_[i][t]);
        kept_[i][t].copy_from(garbage_);  // what comes later must not need it
      }
      offload_.release(offloaded_[i]);
    }
  }
  // After backward.
  void expect_what_was_kept() const {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      for (const Tensor& read : reads_[i]) {
        const Tensor here = read.to_host();
        const std::span<const float> values = here.span<float>();
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](float one) { return one == value(i); }))
            << "block " << i << ": " << values.front() << " where " << value(i) << " was kept";
      }
    }
  }

 private:
  float value(std::size_t block) const { return first_ + static_cast<float>(block); }

  ActivationOffload& offload_;
  Count elements_;
  float first_;
  Tensor garbage_;
  std::array<Tensor, kBlocks> sources_;
  std::array<std::array<Tensor, 2>, kBlocks> kept_, reads_;
  std::array<ActivationOffload::Kept, kBlocks> offloaded_;
};

TEST(ActivationOffload, BringsBackWhatEachPassKept) {
  const Count elements = test_device() == DeviceKind::gpu ? 4 * 1024 * 1024 : 100;
  ActivationOffload offload(test_device());
  Pass first(offload, elements, 100.0f), second(offload, elements, 200.0f), third(offload, elements, 300.0f);
  for (int step = 0; step < 3; ++step) {  // in the first, host memory is still being taken, and the host waits
    first.forward();                      // as in a pipeline: several under way, and the oldest goes back first
    second.forward();
    first.backward();
    third.forward();
    second.backward();
    third.backward();
    for (const Pass* pass : {&first, &second, &third}) pass->expect_what_was_kept();
  }
}

TEST(ActivationOffload, TakesWhatItWasCountedToNeedAndNoMore) {
  ActivationOffload::Memory needed;
  {
    const CountingScope counts;
    ActivationOffload offload(test_device());
    Pass(offload, 100, 0.0f).forward();
    needed = offload.held();
  }
  EXPECT_EQ(needed.lanes, (std::array<Bytes, 3>{1024, 1024, 1024}));  // two tensors of 400 bytes, each rounded up to 512
  EXPECT_EQ(needed.host, (std::map<Bytes, Count>{{1024, 8}}));
  ActivationOffload offload(test_device());
  offload.reserve(needed);
  const auto live = [] {
    return memory_account(test_device())["activations.lanes"].live +
           memory_account(DeviceKind::cpu)["activations.offloaded"].live;
  };
  EXPECT_EQ(live(), 3 * 1024 + 8 * 1024);
  Pass pass(offload, 100, 0.0f);
  for (int step = 0; step < 3; ++step) {
    pass.forward();
    pass.backward();
  }
  EXPECT_EQ(live(), 3 * 1024 + 8 * 1024);
}

// What a plan hears of it.
struct Copies : CountingListener {
  std::size_t communicates(const Operation& one) override {
    EXPECT_EQ(one.group, "host");
    bytes[one.name] += one.bytes;
    return ++last;
  }
  void waits(std::size_t id) override { EXPECT_TRUE(awaited.insert(id).second) << "twice for copy " << id; }
  std::map<std::string_view, Bytes> bytes;
  std::set<std::size_t> awaited;
  std::size_t last = 0;
};

TEST(ActivationOffload, FetchesAllButTheLastBlocksWhichAreStillThere) {
  const CountingScope counts;
  ActivationOffload offload(test_device());
  Pass pass(offload, 100, 0.0f);
  Copies copies;
  const ListeningScope listens(copies);
  pass.forward();
  pass.backward();
  EXPECT_EQ(copies.bytes["offload"], 8 * 1024);
  EXPECT_EQ(copies.bytes["fetch"], 5 * 1024);
  // Each fetch, and each copy whose lane forward filled again.
  EXPECT_EQ(copies.awaited.size(), 5u + 5u);
}

}  // namespace
}  // namespace cohort::test
