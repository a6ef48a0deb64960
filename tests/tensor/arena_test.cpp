// The arena: alignment, no overlap, rewinding, growth, peak.
#include "tensor/arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace cohort {
namespace {

std::uintptr_t address(const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.raw()); }

// Kokkos gives chunks at multiples of 64 bytes on the host; what is taken from one lies 256 apart.
TEST(Arena, AlignsToCacheLines) {
  Arena arena("test");
  const std::uintptr_t first = address(arena.take({1}));
  EXPECT_EQ(first % 64, 0u);
  for (const Count elements : {1, 3, 16, 17, 1000}) {
    EXPECT_EQ((address(arena.take({elements})) - first) % 256, 0u);
    EXPECT_EQ((address(arena.take({elements}, DType::bf16)) - first) % 256, 0u);
    EXPECT_EQ((address(arena.take({elements}, DType::u8)) - first) % 256, 0u);
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(address(arena.take({3 * kMiB}, DType::u8)) % 64, 0u);  // in later chunks too
}

TEST(Arena, ReservedMemoryIsOneChunk) {
  Arena arena("test");
  arena.reserve(40 * kMiB);
  EXPECT_EQ(arena.peak_bytes(), 0);
  const std::uintptr_t first = address(arena.take({9 * kMiB}, DType::u8));
  for (Count i = 1; i < 4; ++i) {
    EXPECT_EQ(address(arena.take({9 * kMiB}, DType::u8)), first + static_cast<std::uintptr_t>(i * 9 * kMiB));
  }
  EXPECT_EQ(arena.peak_bytes(), 36 * kMiB);
  EXPECT_TRUE(arena.take({9 * kMiB}, DType::u8).defined()) << "beyond it, the arena grows as ever";
  EXPECT_THROW(arena.reserve(kMiB), Error) << "too late";
}

TEST(Arena, TakesHaveTheShapeAndTypeAskedFor) {
  Arena arena("test");
  const Tensor tensor = arena.take({2, 3, 4}, DType::f64);
  EXPECT_EQ(tensor.shape(), Shape({2, 3, 4}));
  EXPECT_EQ(tensor.dtype(), DType::f64);
  EXPECT_TRUE(arena.take({0}).defined());
}

// Each tensor is filled with its own number; none may have been written over by another. Sizes that leave chunks half full.
TEST(Arena, TensorsDoNotOverlap) {
  Arena arena("test");
  std::vector<Tensor> tensors;
  for (const Count kib : {1, 700, 3000, 4096, 5, 900, 9000, 1, 4095, 2}) {
    const Tensor tensor = arena.take({kib * 256 + 1});
    for (float& element : tensor.span<float>()) element = static_cast<float>(tensors.size());
    tensors.push_back(tensor);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const float element : tensors[i].span<float>()) ASSERT_EQ(element, static_cast<float>(i));
  }
}

TEST(Arena, RewindGivesTheSameMemoryAgain) {
  Arena arena("test");
  arena.take({100});
  const Arena::Mark mark = arena.mark();
  const Tensor first = arena.take({1000}), second = arena.take({2 * kMiB});  // the second needs a chunk of its own
  arena.rewind(mark);
  EXPECT_EQ(arena.take({1000}).raw(), first.raw());
  EXPECT_EQ(arena.take({2 * kMiB}).raw(), second.raw());
}

TEST(Arena, ScopesNest) {
  Arena arena("test");
  const Tensor outer = arena.take({10});
  const void* inner = nullptr;
  {
    const Arena::Scope scope(arena);
    inner = arena.take({10}).raw();
    {
      const Arena::Scope deeper(arena);
      EXPECT_NE(arena.take({10}).raw(), inner);
    }
  }
  EXPECT_EQ(arena.take({10}).raw(), inner);
  EXPECT_NE(inner, outer.raw());
}

TEST(Arena, PeakIsTheMostInUseAtOnce) {
  Arena arena("test");
  EXPECT_EQ(arena.peak_bytes(), 0);
  {
    const Arena::Scope scope(arena);
    arena.take({1000});
    arena.take({1000});
  }
  const Bytes peak = arena.peak_bytes();
  EXPECT_GE(peak, 8000);
  EXPECT_LE(peak, 8000 + 2 * 256);
  arena.take({1000});
  EXPECT_EQ(arena.peak_bytes(), peak);
  arena.take({1500});
  EXPECT_GT(arena.peak_bytes(), peak);
}

TEST(Arena, StaysFlatOverSteps) {
  Arena arena("test");
  std::vector<void*> first;
  Bytes peak = 0;
  for (int step = 0; step < 100; ++step) {
    const Arena::Scope scope(arena);
    std::vector<void*> pointers;
    for (const Count elements : {1000, 2'000'000, 17, 1'500'000, 800'000}) pointers.push_back(arena.take({elements}).raw());
    if (step == 0) {
      first = pointers;
      peak = arena.peak_bytes();
    }
    ASSERT_EQ(pointers, first) << step;
    ASSERT_EQ(arena.peak_bytes(), peak) << step;
  }
}

}  // namespace
}  // namespace cohort
