// A thread that counts: tensors without memory, and an account of its own.
#include "tensor/counting_scope.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/counting.hpp"
#include "support/expect_error.hpp"
#include "tensor/arena.hpp"
#include "tensor/convert.hpp"
#include "tensor/memory_account.hpp"
#include "tensor/memory_kind.hpp"
#include "tensor/parameter.hpp"

namespace cohort::test {
namespace {

constexpr Count kHuge = Count{1} << 40;  // of fp32: more than any machine has

TEST(Counting, LargeTensorsTakeNoMemoryAndAreAccountedFor) {
  const CountingScope scope;
  const Tensor a = Tensor::zeros("parameters.values", {kHuge}), b = Tensor::zeros("parameters.values", {kHuge});
  EXPECT_NE(a.raw(), b.raw());
  a.zero();
  a.copy_from(b);
  const Tensor narrow = Tensor::zeros("parameters.compute", {kHuge}, DType::bf16, DeviceKind::gpu);  // of no device
  convert(narrow, Tensor::zeros("x", {kHuge}, DType::f32, DeviceKind::gpu));
  EXPECT_EQ(kinds_of_memory(DeviceKind::cpu).kinds[MemoryKind::parameters], 8 * kHuge);
  EXPECT_EQ(kinds_of_memory(DeviceKind::gpu).kinds[MemoryKind::parameters], 2 * kHuge);
  ParameterRegistry registry;
  registry.declare("w", {kHuge / 4, 4}, {InitSpec::Kind::normal, 0.02});
  registry.allocate(1);
  EXPECT_EQ(memory_account(DeviceKind::cpu).at("gradients.whole").live, 4 * kHuge);
}

TEST(Counting, SmallTensorsHoldZeros) {
  const CountingScope scope;
  const Tensor numbers = Tensor::zeros("numbers", {1024});
  EXPECT_EQ(numbers.f32()[1023], 0.0f);
  numbers.f32()[7] = 1.0f;
  EXPECT_EQ(numbers.f32()[7], 1.0f);
}

TEST(Counting, ArenasAreOnePiece) {
  const CountingScope scope;
  Arena arena("activations");
  {
    const Arena::Scope scratch(arena);
    arena.take({kHuge / 8});
    arena.take({1});
  }
  arena.take({kHuge / 16});
  EXPECT_EQ(arena.peak_bytes(), kHuge / 2 + 256);
  EXPECT_EQ(kinds_of_memory(DeviceKind::cpu).kinds[MemoryKind::activations], kHuge / 2 + 256);
}

TEST(Counting, EndsWithItsScopeAndIsThisThreadsAlone) {
  const Tensor before = Tensor::zeros("counting.before", {100}, DType::u8);
  {
    const CountingScope scope;
    Tensor::zeros("counting.inside", {kHuge});
    EXPECT_EQ(memory_account(DeviceKind::cpu).count("counting.before"), 0u);
    std::thread([] { EXPECT_FALSE(counting()); }).join();
    expect_error([] { const CountingScope second; }, ExitCode::internal, {"counts"});
    EXPECT_TRUE(counting());
  }
  EXPECT_FALSE(counting());
  EXPECT_EQ(memory_account(DeviceKind::cpu).count("counting.inside"), 0u);
  EXPECT_EQ(memory_account(DeviceKind::cpu).at("counting.before").live, 100);
  const CountingScope again;
  EXPECT_EQ(memory_account(DeviceKind::cpu).count("counting.inside"), 0u);
}

TEST(MemoryKinds, AreTheFirstWordsOfLabels) {
  EXPECT_EQ(kind_of_label("parameters.compute"), MemoryKind::parameters);
  EXPECT_EQ(kind_of_label("optimizer.v"), MemoryKind::optimizer);
  EXPECT_EQ(kind_of_label("activations"), MemoryKind::activations);
  EXPECT_EQ(kind_of_label("buffers.of-a-new-strategy"), MemoryKind::buffers);
  EXPECT_EQ(kind_of_label("host copy"), std::nullopt);
  EXPECT_EQ(kind_of_label("optimizers"), std::nullopt);
}

}  // namespace
}  // namespace cohort::test
