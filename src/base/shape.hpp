// The shape of a tensor: up to five dims, row-major (the last dim varies fastest).
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace cohort {

class Shape {
 public:
  static constexpr int kMaxDims = 5;

  Shape() = default;  // a scalar: no dims, one element
  Shape(std::initializer_list<Count> dims) : Shape(std::vector<Count>(dims)) {}
  explicit Shape(const std::vector<Count>& dims) {
    COHORT_CHECK(dims.size() <= kMaxDims, "a shape has at most {} dims, not {}", kMaxDims, dims.size());
    for (Count extent : dims) {
      COHORT_CHECK(extent >= 0, "a dim cannot have size {}", extent);
      extents_[static_cast<std::size_t>(dims_++)] = extent;
    }
  }

  int dims() const { return dims_; }
  Count operator[](int dim) const { return extents_[static_cast<std::size_t>(dim < 0 ? dim + dims_ : dim)]; }
  Count elements() const { return product_of(dims_); }
  /// Elements per index of the last dim: all dims but the last, multiplied.
  Count rows() const { return dims_ == 0 ? 1 : product_of(dims_ - 1); }
  Count columns() const { return dims_ == 0 ? 1 : (*this)[-1]; }
  std::vector<Count> vector() const { return {extents_.begin(), extents_.begin() + dims_}; }
  bool operator==(const Shape&) const = default;
  /// "[512, 128]"
  std::string str() const;

 private:
  Count product_of(int dims) const {
    Count product = 1;
    for (int dim = 0; dim < dims; ++dim) product *= extents_[static_cast<std::size_t>(dim)];
    return product;
  }

  std::array<Count, kMaxDims> extents_{};
  int dims_ = 0;
};

}  // namespace cohort
