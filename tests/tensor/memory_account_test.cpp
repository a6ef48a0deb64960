#include "tensor/memory_account.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tensor/arena.hpp"
#include "tensor/buffer_pool.hpp"
#include "tensor/memory_report.hpp"
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

TEST(MemoryAccount, ArenasAndPoolsSayWhatTheyUse) {
  Arena arena("account.arena");
  for (int step = 0; step < 3; ++step) {
    const Arena::Scope scope(arena);
    arena.take({256}, DType::u8);
    arena.take({512}, DType::u8);
  }
  EXPECT_EQ(use_of("account.arena").used, 768);
  EXPECT_GT(use_of("account.arena").live, 768);  // a chunk
  BufferPool pool("account.pool", DeviceKind::cpu);
  const Tensor a = pool.take(100, DType::u8);
  pool.give_back(a);
  const Tensor b = pool.take(100, DType::u8);
  EXPECT_EQ(use_of("account.pool").used, 100);
  pool.take(50, DType::f32);
  EXPECT_EQ(use_of("account.pool").used, 300);
}

TEST(MemoryReport, LargestLabelsFirstAndTheRestSummed) {
  DeviceMemoryReport report{100 * kGiB, 40 * kGiB, 39 * kGiB, {}};
  for (int i = 1; i <= 10; ++i) report.tensors[std::string(1, static_cast<char>('a' + i))].live = i * kGiB;
  report.tensors["k"].used = 8 * kGiB;
  report.tensors["gone"] = {.live = 0, .peak = kGiB, .used = kGiB};
  EXPECT_EQ(describe(report),
            "100.0 GiB of device memory, 40.0 GiB free (largest block 39.0 GiB); tensors 55.0 GiB: k 10.0 GiB (8.0 GiB used), j "
            "9.0 GiB, i 8.0 GiB, h 7.0 GiB, g 6.0 GiB, f 5.0 GiB, e 4.0 GiB, d 3.0 GiB, 2 more 3.0 GiB; other 5.0 GiB (CUDA, "
            "NCCL, cuBLASLt, other processes)");
  report.largest.reset();
  EXPECT_EQ(describe(report).find("largest"), std::string::npos);
}

}  // namespace
}  // namespace cohort::test
