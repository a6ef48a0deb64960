// Which elements of a logical tensor a rank holds, or a file stores; and what two such parts have in common, by which saving,
// loading and resharding move elements. Pure arithmetic: no files, no ranks.
#pragma once

#include <algorithm>
#include <optional>

#include "base/units.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

/// Elements [begin, begin + elements), in row-major order, of a box of a tensor: all of it, or a range of one dim. That is what
/// every strategy leaves on a rank: tensor parallelism cuts one dim, ZeRO takes a run of what is left.
class TensorPart {
 public:
  /// A range of one dim.
  struct Range {
    int dim;
    Count begin, end;
    bool operator==(const Range&) const = default;
  };

  /// All elements of a tensor of this shape.
  explicit TensorPart(const Shape& shape) : TensorPart(shape, std::nullopt, 0, shape.elements()) {}
  /// Throws Error(internal) if the range or the run lies outside of the tensor.
  TensorPart(const Shape& shape, std::optional<Range> range, Count begin, Count elements);

  const Shape& shape() const { return shape_; }
  const std::optional<Range>& range() const { return range_; }
  Count begin() const { return begin_; }
  Count elements() const { return elements_; }
  /// The box: where it begins in the tensor, and its sizes.
  std::vector<Count> box_start() const;
  Shape box_shape() const { return box_shape_; }
  bool holds_whole_box() const { return elements_ == box_shape_.elements(); }
  bool holds_whole_tensor() const { return elements_ == shape_.elements(); }

  /// Elements [at, at + elements) of this part.
  TensorPart slice(Count at, Count elements) const { return {shape_, range_, begin_ + at, elements}; }
  /// Where element i of the part lies in the tensor. Rises with i.
  Count global(Count i) const { return map_.global(begin_ + i); }
  /// The first element of the part that lies at `at` of the tensor or behind; elements() if none does.
  Count first_from(Count at) const;
  /// How many elements from i on are neighbours in the tensor, too.
  Count run_from(Count i) const { return std::min(map_.run - (begin_ + i) % map_.run, elements_ - i); }

  bool operator==(const TensorPart& other) const {
    return shape_ == other.shape_ && range_ == other.range_ && begin_ == other.begin_ && elements_ == other.elements_;
  }

 private:
  Shape shape_;
  std::optional<Range> range_;
  Count begin_, elements_;
  Shape box_shape_;
  ShardMap map_;
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

/// How many elements two parts of one tensor have in common.
Count common_elements(const TensorPart& a, const TensorPart& b);

}  // namespace cohort
