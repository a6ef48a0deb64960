#include "tensor/memory_account.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tensor/tensor.hpp"

namespace cohort::test {
namespace {

MemoryUse use_of(const std::string& label) { return memory_account(DeviceKind::cpu)[label]; }

TEST(MemoryAccount, FollowsTensorsByLabel) {
  {
    const Tensor tensor = Tensor::zeros("account.a", {100}, DType::f32);
    const Tensor part = tensor.slice(0, 10);  // no memory of its own
    const Tensor other = Tensor::zeros("account.b", {10}, DType::bf16);
    EXPECT_EQ(use_of("account.a").live, 400);
    EXPECT_EQ(use_of("account.b").live, 20);
  }
  EXPECT_EQ(use_of("account.a").live, 0);
  EXPECT_EQ(use_of("account.a").peak, 400);
}

TEST(MemoryAccount, MemoryLivesAsLongAsItsLastOwner) {
  Tensor part;
  {
    const Tensor tensor = Tensor::zeros("account.c", {100}, DType::u8);
    part = tensor.slice(50, 60);
  }
  EXPECT_EQ(use_of("account.c").live, 100);
  part = {};
  EXPECT_EQ(use_of("account.c").live, 0);
}

TEST(MemoryAccount, PeaksAreOfWhatWasThereAtOnce) {
  for (int i = 0; i < 3; ++i) Tensor::zeros("account.d", {100}, DType::u8);
  EXPECT_EQ(use_of("account.d").peak, 100);
  const Tensor one = Tensor::zeros("account.d", {30}, DType::u8);
  const Tensor two = Tensor::zeros("account.d", {90}, DType::u8);
  EXPECT_EQ(use_of("account.d").peak, 120);
  reset_memory_peaks();
  EXPECT_EQ(use_of("account.d").peak, 120);
}

TEST(MemoryAccount, ThreadsMayAllocate) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) {
        count_memory("account.e", DeviceKind::cpu, 8);
        count_memory("account.e", DeviceKind::cpu, -8);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(use_of("account.e").live, 0);
  EXPECT_GE(use_of("account.e").peak, 8);
  EXPECT_LE(use_of("account.e").peak, 32);
}

}  // namespace
}  // namespace cohort::test
