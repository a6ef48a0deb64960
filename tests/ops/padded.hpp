// Matrices inside larger arrays, for tests of products: what lies between their rows must stay as it was.
#pragma once

#include "ops/compare.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops {

inline constexpr float kPadding = -77.0f;

// A matrix whose rows are `padding` elements further apart than they are long; what lies between them holds kPadding.
struct Padded {
  Padded(Input values, Count rows, Count columns, Count padding)
      : memory(filled({std::max<Count>(1, rows * (columns + padding))}, kPadding)),
        view{memory.f32(), rows, columns, columns + padding} {
    for (Count i = 0; i < rows * columns; ++i) view.data[i / columns * view.stride + i % columns] = static_cast<float>(values[i]);
  }
  Array values() const {
    Array result;
    for (Count i = 0; i < view.rows; ++i)
      result.insert(result.end(), view.data + i * view.stride, view.data + i * view.stride + view.columns);
    return result;
  }
  bool padding_untouched() const {
    for (Count i = 0; i < view.rows; ++i) {
      for (Count j = view.columns; j < view.stride; ++j) {
        if (view.data[i * view.stride + j] != kPadding) return false;
      }
    }
    return true;
  }

  Tensor memory;
  MatrixView view;
};

}  // namespace cohort::ops
