// Token and position embeddings: rows of tables.
#pragma once

#include <cstdint>

#include "ops/reference/array.hpp"

namespace cohort::ops::reference {

/// out [R, C]: out_r = token_table[tokens_r] + position_table[r mod T]. token_table [V, C]; position_table [T, C], or empty for
/// none.
inline Array embedding_forward(std::span<const std::int32_t> tokens, Input token_table, Input position_table, Count width) {
  const Count positions = static_cast<Count>(position_table.size()) / width;
  Array out;
  for (Count r = 0; r < static_cast<Count>(tokens.size()); ++r) {
    for (Count c = 0; c < width; ++c) {
      const double position = positions == 0 ? 0.0 : position_table[(r % positions) * width + c];
      out.push_back(token_table[tokens[r] * width + c] + position);
    }
  }
  return out;
}

/// The gradient of a table [entries, C] whose row index_r was read for row r of dout [R, C]: each entry gets the sum over its
/// readers.
inline Array table_backward(std::span<const std::int32_t> indices, Input dout, Count entries, Count width) {
  Array dtable(entries * width, 0.0);
  for (Count r = 0; r < static_cast<Count>(indices.size()); ++r) {
    for (Count c = 0; c < width; ++c) dtable[indices[r] * width + c] += dout[r * width + c];
  }
  return dtable;
}

}  // namespace cohort::ops::reference
