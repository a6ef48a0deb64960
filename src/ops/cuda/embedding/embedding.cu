#include "ops/cuda/embedding/embedding.hpp"
#include "ops/cuda/embedding/token_sort.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/sums/columns.cuh"

namespace cohort::ops::cuda {
namespace {

// Rows of one thread whose packs are on their way at one time.
constexpr int kAhead = 4;
// The sorted rows are cut into pieces of this length. Longer pieces would leave too few of them to fill the device, shorter ones
// would cut more runs.
constexpr int kPiece = 64;

Count pieces_of(Count rows) { return divide_up(rows, kPiece); }

template <class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    gather(T* __restrict__ out, const std::int32_t* __restrict__ tokens, const T* __restrict__ token_table,
           const T* __restrict__ position_table, int rows, int positions, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  if (column >= columns) return;
  const int row = static_cast<int>(at.block * kAhead * blockDim.y + threadIdx.y);
  Pack<T, kVec> words[kAhead];
  Pack<T, kVec> places[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int r = row + k * static_cast<int>(blockDim.y);
    if (r >= rows) continue;
    words[k] = load<T, kVec>(token_table + tokens[r] * columns + column);
    if (position_table != nullptr) places[k] = load<T, kVec>(position_table + r % positions * columns + column);
  }
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int r = row + k * static_cast<int>(blockDim.y);
    if (r >= rows) return;
    if (position_table != nullptr) {
      float word[kVec];
      float place[kVec];
      widen(word, words[k]);
      widen(place, places[k]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) word[i] += place[i];
      words[k] = narrow<T>(word);
    }
    store(out + r * columns + column, words[k]);
  }
}

template <int kVec>
__device__ __forceinline__ void add_to_entry(float* entry, const float (&sum)[kVec]) {
  float values[kVec];
  load_floats(values, entry);
#pragma unroll
  for (int i = 0; i < kVec; ++i) values[i] += sum[i];
  store_floats(entry, values);
}

// Sums each run of equal tokens within one piece of the sorted rows, in row order. A run that lies in the piece with both its
// ends is added to its entry of the table, which nobody else touches. A run that neighbouring pieces share leaves its part in
// partials [pieces, 2, C]: [0] if it began in an earlier piece, [1] if it begins here.
template <class T, int kVec>
__global__ void __launch_bounds__(kTileThreads) sum_runs(float* dtable, float* partials, SortedTokens sorted,
                                                         const T* __restrict__ dout, int rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  const int piece = static_cast<int>(at.block * blockDim.y + threadIdx.y);
  const int begin = piece * kPiece;
  if (column >= columns || begin >= rows) return;
  const int end = min(rows, begin + kPiece);
  float* const partial = partials + Count{piece} * 2 * columns + column;

  int token = sorted.tokens[begin];
  bool began_earlier = begin > 0 && sorted.tokens[begin - 1] == token;
  float sum[kVec] = {};
  for (int first = begin; first < end; first += kAhead) {
    Pack<T, kVec> packs[kAhead];
    int tokens[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k >= end) continue;
      tokens[k] = sorted.tokens[first + k];
      packs[k] = load<T, kVec>(dout + sorted.rows[first + k] * columns + column);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k >= end) continue;
      if (tokens[k] != token) {
        if (began_earlier) {
          store_floats(partial, sum);
        } else {
          add_to_entry(dtable + token * columns + column, sum);
        }
        began_earlier = false;
        token = tokens[k];
#pragma unroll
        for (int i = 0; i < kVec; ++i) sum[i] = 0.0f;
      }
      float values[kVec];
      widen(values, packs[k]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum[i] += values[i];
    }
  }
  const bool goes_on = end < rows && sorted.tokens[end] == token;
  if (began_earlier) {
    store_floats(partial, sum);
  } else if (goes_on) {
    store_floats(partial + columns, sum);
  } else {
    add_to_entry(dtable + token * columns + column, sum);
  }
}

// The first of the pieces from `low` to `high` that does not begin with the token; all before it do.
__device__ int first_piece_without(const std::int32_t* tokens, int token, int low, int high) {
  while (low < high) {
    const int middle = (low + high) / 2;
    if (tokens[middle * kPiece] == token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Adds up the parts of each run that several pieces share. The piece in which it begins does this.
__global__ void __launch_bounds__(kTileThreads)
    join_runs(float* dtable, const float* __restrict__ partials, SortedTokens sorted, int rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack;
  const int piece = static_cast<int>(at.block * blockDim.y + threadIdx.y);
  const int begin = piece * kPiece;
  const int end = begin + kPiece;
  if (column >= columns || end >= rows) return;  // nothing goes on beyond the last piece
  const int token = sorted.tokens[end];
  const bool begins_here = sorted.tokens[end - 1] == token && !(begin > 0 && sorted.tokens[begin - 1] == token);
  if (!begins_here) return;
  const int pieces = (rows + kPiece - 1) / kPiece;
  const int after = first_piece_without(sorted.tokens, token, piece + 2, pieces);
  float sum = partials[(Count{piece} * 2 + 1) * columns + column];
#pragma unroll 8
  for (int p = piece + 1; p < after; ++p) sum += partials[Count{p} * 2 * columns + column];
  dtable[token * columns + column] += sum;
}

template <class T, int kVec>
void launch_gather(CUstream_st* stream, T* out, const std::int32_t* tokens, const T* token_table, const T* position_table,
                   Count rows, Count positions, Count columns) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const unsigned grid = tiles.blocks(divide_up(rows, Count{kAhead} * tiles.block.y));
  gather<T, kVec><<<grid, tiles.block, 0, stream>>>(out, tokens, token_table, position_table, static_cast<int>(rows),
                                                    static_cast<int>(positions), columns, tiles.tiles);
}

template <class T, int kVec>
void launch_sum_runs(CUstream_st* stream, float* dtable, float* partials, const SortedTokens& sorted, const T* dout, Count rows,
                     Count columns) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const unsigned grid = tiles.blocks(divide_up(pieces_of(rows), tiles.block.y));
  sum_runs<T, kVec>
      <<<grid, tiles.block, 0, stream>>>(dtable, partials, sorted, dout, static_cast<int>(rows), columns, tiles.tiles);
}

// What lies in scratch, one after the other: the sort's arrays, the partial sums of runs, and those of positions.
struct Scratch {
  static Bytes aligned(Bytes bytes) { return 256 * divide_up(bytes, 256); }
  static Bytes sort_bytes(Count rows) { return aligned(sort_tokens_scratch_bytes(rows)); }
  static Bytes run_bytes(Count rows, Count columns) { return aligned(pieces_of(rows) * 2 * columns * Bytes{sizeof(float)}); }
};

}  // namespace

void embedding_forward(CUstream_st* stream, DType dtype, void* out, const std::int32_t* tokens, const void* token_table,
                       const void* position_table, Count rows, Count positions, Count columns) {
  if (rows == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(columns, out, token_table, position_table);
    const auto launch = wide ? launch_gather<T, kWide<T>> : launch_gather<T, 1>;
    launch(stream, static_cast<T*>(out), tokens, static_cast<const T*>(token_table), static_cast<const T*>(position_table), rows,
           positions, columns);
  });
}

Bytes embedding_backward_scratch_bytes(Count rows, Count positions, Count columns) {
  return Scratch::sort_bytes(rows) + Scratch::run_bytes(rows, columns) +
         column_sums_scratch_bytes(divide_up(rows, positions), positions * columns);
}

void embedding_backward(CUstream_st* stream, DType dtype, float* dtoken_table, float* dposition_table, const std::int32_t* tokens,
                        const void* dout, Count rows, Count vocabulary, Count positions, Count columns, void* scratch) {
  if (rows == 0) return;
  char* const memory = static_cast<char*>(scratch);
  float* const run_partials = reinterpret_cast<float*>(memory + Scratch::sort_bytes(rows));
  void* const position_partials = memory + Scratch::sort_bytes(rows) + Scratch::run_bytes(rows, columns);
  const SortedTokens sorted = sort_tokens(stream, tokens, rows, vocabulary, memory);
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto launch = is_wide<T>(columns, dout, dtoken_table, scratch) ? launch_sum_runs<T, kWide<T>> : launch_sum_runs<T, 1>;
    launch(stream, dtoken_table, run_partials, sorted, static_cast<const T*>(dout), rows, columns);
  });
  const ColumnTiles tiles = column_tiles(columns);
  const unsigned grid = tiles.blocks(divide_up(pieces_of(rows), tiles.block.y));
  join_runs<<<grid, tiles.block, 0, stream>>>(dtoken_table, run_partials, sorted, static_cast<int>(rows), columns, tiles.tiles);
  if (dposition_table == nullptr) return;
  // Each row of dout [B, T C] is a sample, and each of its columns an element of the table [T, C].
  column_sums(stream, dtype, dposition_table, dout, rows / positions, positions * columns, position_partials);
}

}  // namespace cohort::ops::cuda
