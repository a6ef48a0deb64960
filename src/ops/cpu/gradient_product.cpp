// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): blocks of both matrices are copied to where
// their elements lie in the order of use, so that they stay in the second-level cache and cross few pages; of A a tile's part
// stays in the first-level cache, while that of B is read from the second.
#include "ops/cpu/gradient_product.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/machine.hpp"
#include "ops/host_loop.hpp"

namespace cohort::ops::cpu {
namespace {

// Of a block, as measured on a Xeon (family 6, model 207) with 2 MB of second-level cache a core; 256 and 512 terms were not
// faster.
constexpr Count kBlockTerms = 384, kBlockRows = 32 * kTileRows;

// Columns of a block of B, which each tile of rows reads again: 9/16 of the second-level cache, and the rest is for A and C. On
// that Xeon these are the 24 tiles that were measured; other caches were not. More than 24 would only take memory.
Count block_columns() {
  static const Count columns = [] {
    constexpr Bytes kPanel = kBlockTerms * kTileColumns * static_cast<Bytes>(sizeof(float));
    const Bytes known = second_level_cache(), cache = known > 0 ? known : kMiB;
    return std::clamp<Count>(cache * 9 / 16 / kPanel, 4, 24) * kTileColumns;
  }();
  return columns;
}

constexpr Count kLeastTiles = 4;  // of a thread

// The block's columns in panels of kWidth: panel p is [rows, kWidth] at p * rows * kWidth. The last one is filled up with zeros.
template <Count kWidth>
void pack(float* panels, const MatrixView& block) {
  // Few rows at a time: panels begin at distances that are alike to a cache, which could not hold one line of each.
  constexpr Count kRowsAtOnce = 8;
  for (Count begin = 0; begin < block.rows; begin += kRowsAtOnce) {
    const Count end = std::min(begin + kRowsAtOnce, block.rows);
    for (Count column = 0; column < block.columns; column += kWidth) {
      float* const panel = panels + column * block.rows;
      const Count width = std::min(kWidth, block.columns - column);
      for (Count r = begin; r < end; ++r) {
        const float* const from = block.data + r * block.stride + column;
        float* const to = panel + r * kWidth;
        __builtin_prefetch(from + kRowsAtOnce * block.stride);
        if (width == kWidth) {
          std::memcpy(to, from, kWidth * sizeof(float));
        } else {
          std::fill(std::copy_n(from, width, to), to + kWidth, 0.0f);
        }
      }
    }
  }
}

MatrixView block_of(const MatrixView& m, Count row, Count column, Count most_rows, Count most_columns) {
  return {m.data + row * m.stride + column, std::min(most_rows, m.rows - row), std::min(most_columns, m.columns - column),
          m.stride};
}

// A thread's copies of a block of B, and behind it of one of A. Vectors of B lie in one line of the cache each.
class Panels {
 public:
  float* b() const { return memory_.get(); }
  float* a() const { return memory_.get() + kBlockTerms * block_columns(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Release {
    void operator()(float* memory) const { ::operator delete(memory, kLine); }
  };
  static float* allocate(Count elements) {
    return static_cast<float*>(::operator new(static_cast<std::size_t>(elements) * sizeof(float), kLine));
  }
  std::unique_ptr<float, Release> memory_{allocate(kBlockTerms * (block_columns() + kBlockRows))};
};

void add_product_of_blocks(TileKernel kernel, const MatrixView& c, const float* a, const float* b, Count terms) {
  for (Count i = 0; i < c.rows; i += kTileRows) {
    for (Count j = 0; j < c.columns; j += kTileColumns) {
      const MatrixView tile = block_of(c, i, j, kTileRows, kTileColumns);
      kernel({tile.rows, tile.columns, terms, a + i * terms, b + j * terms, tile.data, tile.stride});
    }
  }
}

void add_product_by_one_thread(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  thread_local const Panels panels;
  const Count columns = block_columns();
  for (Count term = 0; term < a.rows; term += kBlockTerms) {
    const Count terms = std::min(kBlockTerms, a.rows - term);
    for (Count column = 0; column < c.columns; column += columns) {
      pack<kTileColumns>(panels.b(), block_of(b, term, column, terms, columns));
      for (Count row = 0; row < c.rows; row += kBlockRows) {
        if (column == 0 || c.rows > kBlockRows) pack<kTileRows>(panels.a(), block_of(a, term, row, terms, kBlockRows));
        add_product_of_blocks(kernel, block_of(c, row, column, kBlockRows, columns), panels.a(), panels.b(), terms);
      }
    }
  }
}

MatrixView columns_between(const MatrixView& m, Count begin, Count end) {
  return {m.data + begin, m.rows, end - begin, m.stride};
}

MatrixView rows_between(const MatrixView& m, Count begin, Count end) {
  return {m.data + begin * m.stride, end - begin, m.columns, m.stride};
}

Count pieces(Count size, Count piece) { return (size + piece - 1) / piece; }

// Of the time that the threads have, what they work: all wait for the one with the most tiles.
double balance(Count tiles, Count threads) {
  return static_cast<double>(tiles) / static_cast<double>(pieces(tiles, threads) * threads);
}

// Whether threads share out the rows of C, or its columns. Each copies all of the matrix of the other side, so its own should be
// several tiles; then those are best that leave the threads least to wait, then the longer side.
bool by_rows(const MatrixView& c, Count threads) {
  const Count rows = pieces(c.rows, kTileRows), columns = pieces(c.columns, kTileColumns), enough = kLeastTiles * threads;
  if ((rows >= enough) != (columns >= enough)) return rows >= enough;
  const double of_rows = balance(rows, threads), of_columns = balance(columns, threads);
  return of_rows != of_columns ? of_rows > of_columns : c.rows >= c.columns;
}

}  // namespace

bool enough_tiles(const MatrixView& c, int threads) {
  return std::max(pieces(c.rows, kTileRows), pieces(c.columns, kTileColumns)) >= kLeastTiles * threads;
}

void add_gradient_product(TileKernel kernel, const MatrixView& c, const MatrixView& a, const MatrixView& b) {
  const bool rows = by_rows(c, host_threads());
  const Count size = rows ? c.rows : c.columns, tile = rows ? kTileRows : kTileColumns;
  for_runs(pieces(size, tile), [&](Count first, Count last, int) {
    const Count begin = first * tile, end = std::min(last * tile, size);
    if (begin >= end) return;
    if (rows) return add_product_by_one_thread(kernel, rows_between(c, begin, end), columns_between(a, begin, end), b);
    add_product_by_one_thread(kernel, columns_between(c, begin, end), a, columns_between(b, begin, end));
  });
}

}  // namespace cohort::ops::cpu
