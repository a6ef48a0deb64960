// Parts of tensors, checked against sets of elements made one by one.
#include "checkpoint/tensor_part.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/format.hpp"
#include "checkpoint/window_exchange.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

// Where the elements of a part lie in the tensor, in the order of the part, from the definition.
std::vector<Count> elements_of(const TensorPart& part) {
  std::vector<Count> box;
  for (Count element = 0; element < part.shape().elements(); ++element) {
    Count index = 0;  // along the cut dim
    Count rest = element;
    for (int dim = part.shape().dims() - 1; dim >= 0; --dim) {
      if (part.range() && dim == part.range()->dim) index = rest % part.shape()[dim];
      rest /= part.shape()[dim];
    }
    if (!part.range() || (part.range()->begin <= index && index < part.range()->end)) box.push_back(element);
  }
  return {box.begin() + part.begin(), box.begin() + part.begin() + part.elements()};
}

// Many parts of a tensor: the whole, and ranges of each dim, cut at several places.
std::vector<TensorPart> parts_of(const Shape& shape) {
  std::vector<TensorPart> parts;
  const auto add_runs = [&](std::optional<TensorPart::Range> range) {
    const Count n = range ? (range->end - range->begin) * shape.elements() / shape[range->dim] : shape.elements();
    for (Count begin = 0; begin <= n; begin += 1 + n / 4) {
      for (Count end = begin; end <= n; end += 1 + n / 5) parts.emplace_back(shape, range, begin, end - begin);
    }
  };
  add_runs(std::nullopt);
  for (int dim = 0; dim < shape.dims(); ++dim) {
    for (Count begin = 0; begin < shape[dim]; ++begin) add_runs(TensorPart::Range{dim, begin, (begin + shape[dim] + 1) / 2});
  }
  return parts;
}

TEST(TensorPart, NamesItsElements) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{4, 2, 3}}) {
    for (const TensorPart& part : parts_of(shape)) {
      const std::vector<Count> expected = elements_of(part);
      ASSERT_EQ(static_cast<Count>(expected.size()), part.elements());
      for (Count i = 0; i < part.elements(); ++i) EXPECT_EQ(part.global(i), expected[static_cast<std::size_t>(i)]);
      for (Count at = 0; at <= shape.elements(); ++at) {
        const auto found = std::lower_bound(expected.begin(), expected.end(), at);
        EXPECT_EQ(part.first_from(at), found - expected.begin()) << shape.str() << " from " << at;
      }
      Count next = 0;
      for_each_run(part, [&](Count i, Count at, Count n) {
        EXPECT_EQ(i, next);
        for (Count k = 0; k < n; ++k) EXPECT_EQ(part.global(i + k), at + k);
        next += n;
      });
      EXPECT_EQ(next, part.elements());
    }
  }
}

TEST(TensorPart, OverlapsAreWhatBothHave) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 5}, Shape{3, 2, 3}}) {
    const std::vector<TensorPart> parts = parts_of(shape);
    for (const TensorPart& a : parts) {
      for (const TensorPart& b : parts) {
        const std::vector<Count> in_a = elements_of(a), in_b = elements_of(b);
        std::vector<Count> expected, found;
        std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(expected));
        for_each_overlap(a, b, [&](Count i, Count j, Count n) {
          for (Count k = 0; k < n; ++k) {
            ASSERT_EQ(a.global(i + k), b.global(j + k));
            found.push_back(a.global(i + k));
          }
        });
        ASSERT_EQ(found, expected) << shape.str();
        EXPECT_EQ(common_elements(a, b), static_cast<Count>(expected.size()));
      }
    }
  }
}

TEST(TensorPart, RefusesWhatLiesOutside) {
  EXPECT_THROW(TensorPart(Shape{4, 3}, TensorPart::Range{0, 1, 5}, 0, 1), Error);
  EXPECT_THROW(TensorPart(Shape{4, 3}, TensorPart::Range{2, 0, 1}, 0, 1), Error);
  EXPECT_THROW(TensorPart(Shape{4, 3}, TensorPart::Range{1, 0, 1}, 2, 3), Error);
  EXPECT_THROW(TensorPart(Shape{4, 3}, std::nullopt, -1, 3), Error);
}

TEST(Windows, CoverEveryTensorInWholeBlocks) {
  for (const Count elements : {Count{0}, Count{1}, kBlockElements, kBlockElements + 1, 40 * kBlockElements + 7}) {
    for (const Count ranges : {1, 2, 3, 8, 50}) {
      std::vector<std::pair<Count, Count>> windows;
      for (Count range = 0; range < ranges; ++range) {
        for (Count round = 0; round < rounds_of(elements, ranges); ++round) {
          const Window window = window_of(elements, ranges, range, round);
          EXPECT_LE(window.elements, largest_window(elements));
          if (window.elements > 0) windows.emplace_back(window.begin, window.begin + window.elements);
        }
        EXPECT_EQ(window_of(elements, ranges, range, rounds_of(elements, ranges)).elements, 0);
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
  std::vector<RemotePart> parts;
  for (Count i = 0; i < n; ++i) {
    const Count begin = shape.elements() * i / n;
    parts.push_back({givers[static_cast<std::size_t>(i)],
                     {"/model/a", 0, DType::f32, {shape, std::nullopt, begin, shape.elements() * (i + 1) / n - begin}, {}}});
  }
  return writers_of(tensors_of(parts).front(), writers);
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
