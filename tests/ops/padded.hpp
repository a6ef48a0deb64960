// Matrices inside larger arrays, for tests of products: what lies between their rows must stay as it was.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ops/compare.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops {

inline constexpr float kPadding = -77.0f;

/// What lies around a matrix, bit for bit. With -0 it shows 0 being added to it, too.
struct Around {
  Count columns = 0, rows = 0;  // elements between rows, and rows behind the last one
  float value = kPadding;
};

// A matrix whose rows are further apart than they are long.
struct Padded {
  Padded(Input values, Count rows, Count columns, Count padding) : Padded(values, rows, columns, Around{padding}) {}
  Padded(Input values, Count rows, Count columns, const Around& around)
      : memory(filled({std::max<Count>(1, (rows + around.rows) * (columns + around.columns))}, around.value)),
        view{memory.f32(), rows, columns, columns + around.columns},
        fill(around.value) {
    for (Count i = 0; i < rows * columns; ++i) view.data[i / columns * view.stride + i % columns] = static_cast<float>(values[i]);
  }
  Array values() const {
    Array result;
    for (Count i = 0; i < view.rows; ++i)
      result.insert(result.end(), view.data + i * view.stride, view.data + i * view.stride + view.columns);
    return result;
  }
  bool padding_untouched() const {
    const auto elements = memory.span<float>();
    for (Count i = 0; i < static_cast<Count>(elements.size()); ++i) {
      if (view.stride > 0 && i / view.stride < view.rows && i % view.stride < view.columns) continue;
      if (std::bit_cast<std::uint32_t>(elements[i]) != std::bit_cast<std::uint32_t>(fill)) return false;
    }
    return true;
  }

  Tensor memory;
  MatrixView view;
  float fill;
};

}  // namespace cohort::ops
