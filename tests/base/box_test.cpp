// Flat ranges as boxes: every range of every small shape, element by element.
#include "base/box.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

/// The flat indices of the elements of a box, in its own row-major order.
std::vector<Count> indices_of(const std::vector<Count>& shape, const Box& box) {
  std::vector<Count> indices;
  std::vector<Count> offset(shape.size(), 0);
  for (Count i = 0; i < product_of(box.count); ++i) {
    Count rest = i;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      offset[dim] = rest % box.count[dim];
      rest /= box.count[dim];
    }
    Count index = 0;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      EXPECT_LT(box.start[dim] + offset[dim], shape[dim]);
      index = index * shape[dim] + box.start[dim] + offset[dim];
    }
    indices.push_back(index);
  }
  return indices;
}

void check_all_ranges(const std::vector<Count>& shape) {
  const Count all = product_of(shape);
  for (Count begin = 0; begin <= all; ++begin) {
    for (Count elements = 0; begin + elements <= all; ++elements) {
      const std::vector<Box> boxes = boxes_of_range(shape, begin, elements);
      if (!shape.empty()) {
        ASSERT_LE(boxes.size(), 2 * shape.size() - 1);
      }
      std::vector<Count> found;
      for (const Box& box : boxes) {
        for (const Count index : indices_of(shape, box)) found.push_back(index);
      }
      std::vector<Count> wanted(static_cast<std::size_t>(elements));
      std::iota(wanted.begin(), wanted.end(), begin);
      ASSERT_EQ(found, wanted) << "from " << begin;
    }
  }
}

TEST(BoxesOfRange, EveryRangeOfSmallShapes) {
  constexpr Count kMost = 4;
  for (Count a = 0; a <= kMost; ++a) {
    check_all_ranges({a});
    for (Count b = 0; b <= kMost; ++b) {
      check_all_ranges({a, b});
      for (Count c = 0; c <= kMost; ++c) check_all_ranges({a, b, c});
    }
  }
  check_all_ranges({});
  check_all_ranges({3, 2, 3, 2});
  check_all_ranges({2, 1, 3, 1, 2});
}

TEST(BoxesOfRange, WholeRowsAreOneBox) {
  const std::vector<Count> shape{6, 4, 5};
  EXPECT_EQ(boxes_of_range(shape, 20, 60), (std::vector<Box>{{{1, 0, 0}, {3, 4, 5}}}));
  EXPECT_EQ(boxes_of_range(shape, 0, 120), (std::vector<Box>{{{0, 0, 0}, {6, 4, 5}}}));
  EXPECT_EQ(boxes_of_range(shape, 25, 10), (std::vector<Box>{{{1, 1, 0}, {1, 2, 5}}}));
}

TEST(BoxesOfRange, SizesBeyond32Bits) {
  const std::vector<Count> shape{Count{1} << 33, 3};
  EXPECT_EQ(boxes_of_range(shape, 3 * (Count{1} << 32), 6), (std::vector<Box>{{{Count{1} << 32, 0}, {2, 3}}}));
}

TEST(BoxesOfRange, OutsideIsRefused) {
  const std::vector<Count> shape{2, 3};
  EXPECT_ERROR(boxes_of_range(shape, 5, 2), ExitCode::internal, "2 elements from 5", "6 elements");
  EXPECT_ERROR(boxes_of_range(shape, -1, 2), ExitCode::internal, "outside");
  EXPECT_ERROR(boxes_of_range(shape, 0, -1), ExitCode::internal, "outside");
}

}  // namespace
}  // namespace cohort
