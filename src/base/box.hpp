// Which elements of a tensor: the words in which parameters are divided among ranks, ranks give and take elements, and files
// store them. Pure arithmetic: no memory, no files, no ranks.
//
//   Box         offsets and counts in every dim: what any number of splits, each of a dim over an axis, leave on a rank
//   TensorPart  a run of a box's elements, in row-major order: what ZeRO takes of what is left
//   BoxMap      where element i of a box lies in the whole tensor
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/shape.hpp"
#include "base/units.hpp"

namespace cohort {

/// The elements whose index along dim d lies in [start[d], start[d] + count[d]).
struct Box {
  std::vector<Count> start;
  std::vector<Count> count;

  /// All elements of an array of this shape.
  static Box whole(const Shape& shape);
  /// Those whose index along `dim` lies in [begin, end). Throws Error(internal) if that is outside of the shape.
  static Box range(const Shape& shape, int dim, Count begin, Count end);
  Count elements() const;
  Count end(std::size_t dim) const { return start[dim] + count[dim]; }
  bool operator==(const Box&) const = default;
};

/// The product; 1 for no dims.
Count product_of(std::span<const Count> shape);

/// What lies in both boxes of one tensor: of no elements if they have nothing in common.
Box intersection(const Box& a, const Box& b);

/// Boxes that together hold exactly the elements [begin, begin + elements) of the row-major order of `shape`, each once. They
/// come in that order: the first box is the first part of the range, and so on. At most 2 * dims - 1; none if elements is 0; for
/// the scalar shape {} one box without dims. The range must lie within the shape: 0 <= begin, 0 <= elements, begin + elements <=
/// product_of(shape).
std::vector<Box> boxes_of_range(std::span<const Count> shape, Count begin, Count elements);

/// Where the elements of a box lie in its tensor: element i of the box is element global(i) of the tensor, both in row-major
/// order. Kernels take it by value.
class BoxMap {
 public:
  /// Throws Error(internal) unless the box lies in the shape.
  BoxMap(const Shape& shape, const Box& box);

  /// Elements of a run: neighbours in the box that are neighbours in the tensor. Runs begin at multiples of it.
  constexpr Count run() const { return run_; }
  constexpr Count global(Count i) const {
    Count at = first_;
    for (int level = 0; level < levels_; ++level) {
      const Count index = i / level_[level].elements;
      at += index * level_[level].stride;
      i -= index * level_[level].elements;
    }
    return at + i;
  }
  /// How many elements of the box lie before element `at` of the tensor.
  Count before(Count at) const;

 private:
  // Neighbouring dims of which the box cuts none but the first count as one. So a split of one dim leaves one level of runs at
  // most, and each further split adds one at most.
  struct Level {
    Count count;     // of indices
    Count elements;  // of the box, in each
    Count stride;    // of the tensor, from one to the next
  };
  Level level_[Shape::kMaxDims - 1];  // the outermost first
  int levels_ = 0;
  Count run_ = 1;
  Count first_ = 0;  // where the box begins
};

/// Elements [begin, begin + elements), in row-major order, of a box of a tensor. That is what every strategy leaves on a rank:
/// tensor and expert parallelism cut dims, ZeRO takes a run of what is left.
class TensorPart {
 public:
  /// All elements of a tensor of this shape.
  explicit TensorPart(const Shape& shape) : TensorPart(shape, 0, shape.elements()) {}
  /// Elements [begin, begin + elements) of the tensor itself.
  TensorPart(const Shape& shape, Count begin, Count elements) : TensorPart(shape, Box::whole(shape), begin, elements) {}
  /// All elements of a box.
  TensorPart(const Shape& shape, const Box& box) : TensorPart(shape, box, 0, box.elements()) {}
  /// Throws Error(internal) if the box or the run lies outside of the tensor.
  TensorPart(const Shape& shape, Box box, Count begin, Count elements);

  const Shape& shape() const { return shape_; }
  const Box& box() const { return box_; }
  Count begin() const { return begin_; }
  Count elements() const { return elements_; }
  bool box_is_tensor() const { return box_.count == shape_.vector(); }
  bool holds_whole_box() const { return elements_ == box_.elements(); }
  bool holds_whole_tensor() const { return elements_ == shape_.elements(); }

  /// Elements [at, at + elements) of this part.
  TensorPart slice(Count at, Count elements) const { return {shape_, box_, begin_ + at, elements}; }
  /// Where element i of the part lies in the tensor. Rises with i.
  Count global(Count i) const { return map_.global(begin_ + i); }
  /// The first element of the part that lies at `at` of the tensor or behind; elements() if none does.
  Count first_from(Count at) const;
  /// How many elements from i on are neighbours in the tensor, too.
  Count run_from(Count i) const { return std::min(map_.run() - (begin_ + i) % map_.run(), elements_ - i); }

  bool operator==(const TensorPart& other) const {
    return shape_ == other.shape_ && box_ == other.box_ && begin_ == other.begin_ && elements_ == other.elements_;
  }

 private:
  Shape shape_;
  Box box_;
  Count begin_, elements_;
  BoxMap map_;
};

/// Calls body(i, at, n) for each run of neighbours: elements [i, i + n) of the part are elements [at, at + n) of the tensor.
template <class Body>
void for_each_run(const TensorPart& part, const Body& body) {
  for (Count i = 0; i < part.elements();) {
    const Count n = part.run_from(i);
    body(i, part.global(i), n);
    i += n;
  }
}

/// Calls body(i, j, n), with rising i and j, for what two parts of one tensor have in common: elements [i, i + n) of `a` are
/// elements [j, j + n) of `b`.
template <class Body>
void for_each_overlap(const TensorPart& a, const TensorPart& b, const Body& body) {
  if (intersection(a.box(), b.box()).elements() == 0) return;  // else columns beside columns would be compared row by row
  Count i = 0;
  Count j = 0;
  while (i < a.elements() && j < b.elements()) {
    const Count at_a = a.global(i);
    const Count at_b = b.global(j);
    if (at_a < at_b) {
      i = a.first_from(at_b);
    } else if (at_b < at_a) {
      j = b.first_from(at_a);
    } else {
      const Count n = std::min(a.run_from(i), b.run_from(j));
      body(i, j, n);
      i += n;
      j += n;
    }
  }
}

/// Whether the parts hold each element of the tensor `shape` once. They must come of splits: of two boxes, the ranges along any
/// dim are the same or have nothing in common.
bool cover_once(const Shape& shape, std::vector<const TensorPart*> parts);

}  // namespace cohort
