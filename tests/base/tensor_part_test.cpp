// Parts of tensors, checked against sets of elements made one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/box.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

// Where the elements of a part lie in the tensor, in the order of the part, from the definition.
std::vector<Count> elements_of(const TensorPart& part) {
  std::vector<Count> box;
  for (Count element = 0; element < part.shape().elements(); ++element) {
    bool inside = true;
    Count rest = element;
    for (int dim = part.shape().dims() - 1; dim >= 0; --dim) {
      const auto d = static_cast<std::size_t>(dim);
      const Count index = rest % part.shape()[dim];
      inside = inside && part.box().start[d] <= index && index < part.box().end(d);
      rest /= part.shape()[dim];
    }
    if (inside) box.push_back(element);
  }
  return {box.begin() + part.begin(), box.begin() + part.begin() + part.elements()};
}

// Boxes of a tensor that cut each of its dims, some, one or none of them: its beginning, something inside of it, its end.
std::vector<Box> boxes_in(const Shape& shape) {
  std::vector<Box> boxes{Box::whole(shape)};
  for (int dim = 0; dim < shape.dims(); ++dim) {
    const Count n = shape[dim];
    const std::vector<Box> so_far = boxes;
    for (const auto& [begin, end] : {std::pair<Count, Count>(0, (n + 1) / 2), {n / 3, (2 * n + 2) / 3}, {n / 2, n}, {n, n}}) {
      for (const Box& box : so_far) boxes.push_back(intersection(box, Box::range(shape, dim, begin, end)));
    }
  }
  return boxes;
}

// Runs of these boxes.
std::vector<TensorPart> parts_of(const Shape& shape) {
  std::vector<TensorPart> parts;
  for (const Box& box : boxes_in(shape)) {
    const Count n = box.elements();
    for (Count begin = 0; begin <= n; begin += 1 + n / 3) {
      for (Count end = begin; end <= n; end += 1 + n / 4) parts.emplace_back(shape, box, begin, end - begin);
    }
  }
  return parts;
}

TEST(TensorPart, NamesItsElements) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{4, 2, 3}, Shape{3, 2, 2, 2, 3}, Shape{2, 0, 3}}) {
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
    std::vector<std::vector<Count>> elements;
    for (const TensorPart& part : parts) elements.push_back(elements_of(part));
    std::size_t wrong = 0;
    for (std::size_t a = 0; a < parts.size(); ++a) {
      for (std::size_t b = 0; b < parts.size(); ++b) {
        std::vector<Count> expected, found;
        std::set_intersection(elements[a].begin(), elements[a].end(), elements[b].begin(), elements[b].end(),
                              std::back_inserter(expected));
        for_each_overlap(parts[a], parts[b], [&](Count i, Count j, Count n) {
          for (Count k = 0; k < n; ++k) {
            wrong += parts[a].global(i + k) != parts[b].global(j + k) ? 1 : 0;
            found.push_back(parts[a].global(i + k));
          }
        });
        wrong += found != expected ? 1 : 0;
      }
    }
    EXPECT_EQ(wrong, 0u) << shape.str() << ", " << parts.size() << " parts";
  }
}

TEST(TensorPart, RefusesWhatLiesOutside) {
  const Shape shape{4, 3};
  EXPECT_ERROR(Box::range(shape, 0, 1, 5), ExitCode::internal, "1 to 5 of dim 0", "[4, 3]");
  EXPECT_ERROR(Box::range(shape, 2, 0, 1), ExitCode::internal, "dim 2");
  EXPECT_ERROR(TensorPart(shape, Box{{0, 2}, {4, 2}}), ExitCode::internal, "2 elements from offset 2 along dim 1");
  EXPECT_ERROR(TensorPart(shape, Box{{0, -1}, {4, 2}}), ExitCode::internal, "dim 1");
  EXPECT_ERROR(TensorPart(shape, Box{{0, std::numeric_limits<Count>::max()}, {4, 2}}), ExitCode::internal, "dim 1");
  EXPECT_ERROR(TensorPart(shape, Box{{0}, {4}}), ExitCode::internal, "a box of 1 offsets and 1 counts");
  EXPECT_ERROR(TensorPart(shape, Box::range(shape, 1, 0, 1), 2, 3), ExitCode::internal, "elements 2 to 5 of a part of 4");
  EXPECT_ERROR(TensorPart(shape, -1, 3), ExitCode::internal, "elements -1");
  EXPECT_ERROR(intersection(Box{{0}, {4}}, Box::whole(shape)), ExitCode::internal, "1 and of 2 dims");
}

// ---- covering

bool cover(const Shape& shape, const std::vector<TensorPart>& parts) {
  std::vector<const TensorPart*> pointers;
  for (const TensorPart& part : parts) pointers.push_back(&part);
  return cover_once(shape, pointers);
}

// Each dim cut at these places, and each box of more than one element in two runs, one of them last in the list.
std::vector<TensorPart> divided(const Shape& shape, const std::vector<std::vector<Count>>& cuts) {
  std::vector<Box> boxes{Box::whole(shape)};
  for (int dim = 0; dim < shape.dims(); ++dim) {
    std::vector<Count> edges = cuts[static_cast<std::size_t>(dim)];
    edges.insert(edges.begin(), 0);
    edges.push_back(shape[dim]);
    std::vector<Box> cut;
    for (const Box& box : boxes) {
      for (std::size_t i = 1; i < edges.size(); ++i)
        cut.push_back(intersection(box, Box::range(shape, dim, edges[i - 1], edges[i])));
    }
    boxes = cut;
  }
  std::vector<TensorPart> parts;
  for (const Box& box : boxes) {
    const TensorPart all(shape, box);
    const Count first = all.elements() / 3;
    parts.push_back(all.slice(first, all.elements() - first));
    parts.insert(parts.begin(), all.slice(0, first));
  }
  return parts;
}

TEST(CoverOnce, WhatAnyNumberOfSplitsLeaves) {
  EXPECT_TRUE(cover({}, {TensorPart(Shape{})}));
  EXPECT_FALSE(cover({}, {}));
  EXPECT_TRUE(cover({0, 4}, {}));
  EXPECT_TRUE(cover({7}, divided({7}, {{2, 2, 5}}))) << "an empty range among them";
  EXPECT_TRUE(cover({6, 5}, divided({6, 5}, {{4}, {1, 3}})));
  EXPECT_TRUE(cover({4, 3, 5}, divided({4, 3, 5}, {{1, 3}, {}, {2}}))) << "experts, and tensor parallelism inside";
  EXPECT_TRUE(cover({4, 3, 5}, divided({4, 3, 5}, {{1}, {2}, {2, 4}})));
}

TEST(CoverOnce, AnyFaultIsSeen) {
  const Shape shape{4, 3, 5};
  const std::vector<TensorPart> right = divided(shape, {{1, 3}, {2}, {2}});
  std::size_t faults = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const TensorPart& part = right[i];
    if (part.elements() == 0) continue;
    const auto refused = [&](const std::optional<TensorPart>& instead) {
      std::vector<TensorPart> wrong = right;
      wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
      if (instead) wrong.push_back(*instead);
      EXPECT_FALSE(cover(shape, wrong)) << i;
      ++faults;
    };
    refused(std::nullopt);
    std::vector<TensorPart> twice = right;
    twice.push_back(part);
    EXPECT_FALSE(cover(shape, twice)) << i;
    for (std::size_t dim = 0; dim < 3; ++dim) {
      for (const Count by : {-1, 1}) {
        Box moved = part.box();
        moved.start[dim] += by;
        if (moved.start[dim] >= 0 && moved.end(dim) <= shape[static_cast<int>(dim)])
          refused(TensorPart(shape, moved, part.begin(), part.elements()));
        Box longer = part.box();
        longer.count[dim] += by;
        if (longer.end(dim) <= shape[static_cast<int>(dim)] && longer.elements() >= part.begin() + part.elements())
          refused(TensorPart(shape, longer, part.begin(), part.elements()));
      }
    }
    if (part.begin() > 0) refused(TensorPart(shape, part.box(), part.begin() - 1, part.elements()));
    if (part.elements() > 1) refused(part.slice(0, part.elements() - 1));
  }
  EXPECT_GT(faults, 60u);
  EXPECT_FALSE(cover({4, 3, 5, 1}, right)) << "of a tensor of another shape";
  // As many elements as the tensor has, at the wrong places: boxes that lie over each other, and boxes of another cut.
  const Shape matrix{4, 4};
  EXPECT_FALSE(cover(matrix, {TensorPart(matrix, Box{{0, 0}, {4, 2}}), TensorPart(matrix, Box{{0, 1}, {4, 2}})}));
  EXPECT_FALSE(cover(matrix, {TensorPart(matrix, Box{{0, 0}, {4, 2}}), TensorPart(matrix, Box{{0, 0}, {2, 4}})}));
}

}  // namespace
}  // namespace cohort::test
