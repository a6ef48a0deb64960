// Parts of tensors, checked against sets of elements made one by one.
#include "checkpoint/tensor_part.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/format.hpp"
#include "checkpoint/whole_file.hpp"
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
    for (const int writers : {1, 2, 3, 8, 50}) {
      for (const Count tensor : {0, 1, 5}) {
        std::vector<std::pair<Count, Count>> ranges;
        for (int writer = 0; writer < writers; ++writer) {
          for (Count round = 0; round < rounds_of(elements, writers); ++round) {
            const Window window = window_of(elements, tensor, writers, writer, round);
            EXPECT_LE(window.elements, 8 * kBlockElements);
            if (window.elements > 0) ranges.emplace_back(window.begin, window.begin + window.elements);
          }
          EXPECT_EQ(window_of(elements, tensor, writers, writer, rounds_of(elements, writers)).elements, 0);
        }
        std::sort(ranges.begin(), ranges.end());
        Count covered = 0;
        for (const auto& [begin, end] : ranges) {
          EXPECT_EQ(begin, covered);
          EXPECT_EQ(begin % kBlockElements, 0);
          covered = end;
        }
        EXPECT_EQ(covered, elements);
      }
    }
  }
}

}  // namespace
}  // namespace cohort::test
