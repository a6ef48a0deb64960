// Windows of whole tensors, put together from what several ranks hold: every element at its place, whatever the layout and
// whoever writes, and without a copy where none is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/format/format.hpp"
#include "checkpoint/write/window_exchange.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

const Shape kShape{3089, 3056};  // ten blocks: more than a window

std::uint8_t value_at(Count element) { return static_cast<std::uint8_t>(element * 31 + (element >> 12)); }
// As stored: exact in bf16, so that the bits are known.
std::uint16_t bits_at(Count element) { return to_bf16(static_cast<float>(value_at(element))).bits; }

// Unevenly, and each rank's share in two parts.
std::vector<TensorPart> parts_of(int dim, int rank, int ranks) {
  const auto edge = [&](Count n, int r) { return n * r * (r + 1) / (ranks * (ranks + 1)); };
  const Count length = dim < 0 ? kShape.elements() : kShape[dim];
  const Count begin = edge(length, rank), end = edge(length, rank + 1);
  const TensorPart own =
      dim < 0 ? TensorPart(kShape, begin, end - begin) : TensorPart(kShape, Box::range(kShape, dim, begin, end));
  const Count middle = own.elements() / 3;
  return {own.slice(0, middle), own.slice(middle, own.elements() - middle)};
}

// Parts of one rank and the memory that they are read from: floats that are stored as bf16, or bytes. Who does not keep its
// elements gives them in a buffer that the next call overwrites.
class Own {
 public:
  Own(int dim, DType stored, bool keeps, int rank, int ranks) {
    memory_.reserve(2);
    for (const TensorPart& part : parts_of(dim, rank, ranks)) {
      const bool bytes = stored == DType::u8;
      const Tensor memory = Tensor::zeros("test", {part.elements()}, bytes ? DType::u8 : DType::f32);
      for_each_run(part, [&](Count i, Count at, Count n) {
        for (Count k = 0; k < n; ++k) {
          if (bytes) {
            memory.data<std::uint8_t>()[i + k] = value_at(at + k);
          } else {
            memory.f32()[i + k] = static_cast<float>(value_at(at + k));
          }
        }
      });
      memory_.push_back(memory);
      const auto read = [this, memory, keeps](Count begin, Count n) {
        if (keeps) return memory.slice(begin, begin + n);
        if (!buffer_.defined()) buffer_ = Tensor::zeros("test", {kBlockElements}, memory.dtype());
        buffer_.slice(0, n).copy_from(memory.slice(begin, begin + n));
        return buffer_.slice(0, n);
      };
      parts.push_back({"/model/large", 0, stored, part, read, keeps});
    }
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  bool holds(const std::byte* data) const {
    return std::any_of(memory_.begin(), memory_.end(), [&](const Tensor& memory) {
      const auto* begin = static_cast<const std::byte*>(memory.raw());
      return data >= begin && data < begin + memory.bytes();
    });
  }

  std::vector<WriteItem> parts;

 private:
  std::vector<Tensor> memory_;
  Tensor buffer_;
};

class Windowed : public ::testing::Test {
 protected:
  void expect_all(int dim, DType stored, bool keeps, int writers) {
    const Own own(dim, stored, keeps, comm_->rank(), comm_->size());
    const std::vector<PlannedTensor> tensors = exchange_write_plan(*comm_, own.parts);
    ASSERT_EQ(tensors.size(), 1u);
    const std::vector<int> order = writers_of(tensors.front(), writers);
    Exchange exchange(*comm_, own.parts);
    WindowElements windows[2];  // as when one is written while the other is filled
    TensorPart last(Shape{0});
    Count elements = 0, wrong = 0;
    const auto check = [&](const TensorPart& window, const WindowElements& held) {
      for (Count i = 0; i < window.elements(); ++i) {
        const auto* data = held.data() + i * size_of(stored);
        std::uint16_t bits = 0;
        std::memcpy(&bits, data, static_cast<std::size_t>(size_of(stored)));
        wrong += bits != (stored == DType::u8 ? value_at(window.begin() + i) : bits_at(window.begin() + i)) ? 1 : 0;
      }
      elements += window.elements();
    };
    for (Count round = 0; round < rounds_of(kShape.elements(), static_cast<Count>(order.size())); ++round) {
      const TensorPart window = exchange.window(tensors.front(), order, round, windows[0]);
      if (window.elements() > 0) {
        EXPECT_EQ(own.holds(windows[0].data()), keeps && lies_in_one(own, window)) << round;
      }
      check(last, windows[1]);
      std::swap(windows[0], windows[1]);
      last = window;
    }
    check(last, windows[1]);
    EXPECT_NO_THROW(exchange.rethrow_failure());
    EXPECT_EQ(wrong, 0) << "of " << elements;
    EXPECT_EQ(all_reduce_value(*comm_, elements, ReduceOp::sum), kShape.elements());
  }
  static bool lies_in_one(const Own& own, const TensorPart& window) {
    return std::any_of(own.parts.begin(), own.parts.end(), [&](const WriteItem& write_plan) {
      const TensorPart& part = write_plan.part;
      const Count first = part.first_from(window.begin());
      return first < part.elements() && part.global(first) == window.begin() && part.run_from(first) >= window.elements();
    });
  }

  std::unique_ptr<Communicator> comm_ = make_world_communicator();
};

TEST_F(Windowed, EveryElementArrivesAtItsPlace) {
  for (const int writers : {1, comm_->size()}) {
    for (const int dim : {0, 1, -1}) {
      for (const bool keeps : {true, false}) {
        SCOPED_TRACE(fmt::format("{} writers, dim {}, keeps {}", writers, dim, keeps));
        expect_all(dim, DType::u8, keeps, writers);
      }
    }
  }
}

TEST_F(Windowed, AlsoWhereItIsStoredAsAnotherType) {
  for (const int dim : {0, 1}) {
    SCOPED_TRACE(dim);
    expect_all(dim, DType::bf16, false, comm_->size());
  }
}

TEST(Windows, CoverEveryTensorInWholeBlocks) {
  for (const Count elements : {Count{0}, Count{1}, kBlockElements, kBlockElements + 1, 40 * kBlockElements + 7}) {
    for (const Count ranges : {1, 2, 3, 8, 50}) {
      std::vector<std::pair<Count, Count>> windows;
      for (Count range = 0; range < ranges; ++range) {
        for (Count round = 0; round < rounds_of(elements, ranges); ++round) {
          const TensorPart window = window_of(Shape{elements}, ranges, range, round);
          EXPECT_LE(window.elements(), largest_window(elements));
          if (window.elements() > 0) windows.emplace_back(window.begin(), window.begin() + window.elements());
        }
        EXPECT_EQ(window_of(Shape{elements}, ranges, range, rounds_of(elements, ranges)).elements(), 0);
      }
      std::sort(windows.begin(), windows.end());
      Count covered = 0;
      for (const auto& [begin, end] : windows) {
        EXPECT_EQ(begin, covered);
        EXPECT_EQ(begin % kBlockElements, 0);
        covered = end;
      }
      EXPECT_EQ(covered, elements);
    }
  }
  EXPECT_EQ(largest_window(100 * kBlockElements), 8 * kBlockElements);
}

// Tensors of so many blocks, whose runs the ranks have in this order.
std::vector<int> writers_for(Count blocks, const std::vector<int>& givers, int writers) {
  const Shape shape{blocks * kBlockElements};
  const auto n = static_cast<Count>(givers.size());
  PlannedTensor tensor{"/model/a", 0, DType::f32, shape, {}};
  for (Count i = 0; i < n; ++i) {
    const Count begin = shape.elements() * i / n;
    tensor.parts.push_back({givers[static_cast<std::size_t>(i)], {shape, begin, shape.elements() * (i + 1) / n - begin}});
  }
  return writers_of(tensor, writers);
}

TEST(Windows, ARangeIsWrittenByWhoHasItIfThatMayBe) {
  using Ranks = std::vector<int>;
  EXPECT_EQ(writers_for(8, {0, 1, 2, 3}, 4), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(writers_for(8, {0, 2, 1, 3}, 4), (Ranks{0, 2, 1, 3})) << "tensor parallelism inside of ZeRO";
  EXPECT_EQ(writers_for(2, {0, 1, 2, 3}, 4), (Ranks{0, 2})) << "the second block begins with rank 2's elements";
  EXPECT_EQ(writers_for(8, {1, 3}, 4), (Ranks{1, 0, 3, 2})) << "one stage of a pipeline: others help";
  EXPECT_EQ(writers_for(8, {2, 2, 2}, 3), (Ranks{2, 0, 1}));
  EXPECT_EQ(writers_for(1, {2}, 4), (Ranks{2})) << "a small tensor stays where it is";
  EXPECT_EQ(writers_for(0, {1}, 4), (Ranks{1}));
  EXPECT_EQ(writers_for(8, {1, 2}, 1), (Ranks{0})) << "rank 0 alone may write";
  EXPECT_EQ(writers_for(8, {3, 1}, 2), (Ranks{1, 0}));
}

}  // namespace
}  // namespace cohort::test
