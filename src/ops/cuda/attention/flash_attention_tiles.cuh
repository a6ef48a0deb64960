// Tiles of 16-bit elements in shared memory and their products on tensor cores: the building blocks of the bf16 and fp16 flash
// attention kernels. Instructions: mma.m16n8k16, ldmatrix and cp.async of the PTX ISA, sections "Matrix multiply-accumulate
// operation using mma instruction" and "Asynchronous copy operations"; compute capability 8.0 and newer.
//
// A warp's sums of a 16 x 8 tile are spread over its lanes as mma defines: lane l holds in [0], [1] row l / 4, columns 2 (l % 4)
// and the next, and in [2], [3] the same columns of row l / 4 + 8. Arrays of sums are [16-row tile][8-column tile][4].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort::ops::cuda::flash {

inline constexpr int kWarpSize = 32;
inline constexpr float kLog2e = 1.4426950408889634f;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x) / kWarpSize; }

/// Rows of D elements. A row is cut into pieces of 16 bytes, whose order is twisted from row to row (XOR with the row number), so
/// that eight rows of one column of pieces, as ldmatrix reads them, lie in different banks. The tile begins at a multiple of 1024
/// bytes.
template <int D>
struct Tile {
  static_assert(D == 32 || D == 64 || D == 128);
  static constexpr int kPieces = D / 8;
  static constexpr int kRowBytes = 2 * D;
  static constexpr int bytes(int rows) { return rows * kRowBytes; }

  /// Bytes from the begin of the tile.
  __device__ static std::uint32_t offset(int row, int piece) {
    const int twist = kPieces >= 8 ? row & 7 : (row >> 1) & 3;  // a row of 32 elements is half a line of banks
    return static_cast<std::uint32_t>(row * kRowBytes + ((piece ^ twist) << 4));
  }
};

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Starts an asynchronous copy of 16 bytes to shared memory; writes zeros if not `valid`.
__device__ inline void copy16(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
/// The same for 4 bytes.
__device__ inline void copy4(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
/// Waits for the copies that this thread started; with a barrier after it, the copies of all threads are visible to all.
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Starts to copy kRows rows of a head, from row `begin` on, to a tile, by all kThreads threads of the block. Rows from `end` on
/// and columns from `head_size` on become zero. `head` is the first element of row 0.
template <int D, int kRows, int kThreads, class Element>
__device__ void load_tile(std::uint32_t tile, const Element* head, int stride, int begin, int end, int head_size) {
  constexpr int kPieces = Tile<D>::kPieces;
  static_assert(kRows * kPieces % kThreads == 0 && kThreads % kPieces == 0);
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int first = static_cast<int>(threadIdx.x) / kPieces;
  const bool column_valid = piece * 8 < head_size;
  const Element* column = head + (column_valid ? piece * 8 : 0);
#pragma unroll
  for (int row = 0; row < kRows; row += kThreads / kPieces) {
    const int r = begin + row + first;
    // An address inside the head, even if it is not read.
    const auto offset = static_cast<std::uint32_t>(min(r, end - 1) * stride);
    copy16(tile + Tile<D>::offset(row + first, piece), column + offset, column_valid && r < end);
  }
}

__device__ inline void load_matrices(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}
__device__ inline void load_matrices_transposed(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

/// sums [16, 8] += a [16, 16] b [16, 8].
template <class Element>
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <int M, int N>
__device__ void clear(float (&sums)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0.0f;
  }
}

/// Overwrites scores [16 M, 8 N] = (rows of tile a from a_row on) (rows of tile b)^T: a contraction over the D columns of both
/// tiles. a_row is a multiple of 16.
template <class Element, int D, int M, int N>
__device__ void multiply_rows(float (&scores)[M][N][4], std::uint32_t a_tile, int a_row, std::uint32_t b_tile) {
  using T = Tile<D>;
  const int lane = lane_id();
  // An address for each of the four 8 x 8 matrices of one ldmatrix. Of a: rows 0-7, rows 8-15, then both for the next 8 columns.
  // Of b: both halves of 16 columns for rows 0-7, then for rows 8-15, which makes the operands of two products.
  // Sixteen columns on is an XOR, since the twist is one and the tile is aligned; sixteen rows on leaves the twist as it is.
  const std::uint32_t a = a_tile + T::offset(a_row + (lane & 15), lane >> 4);
  const std::uint32_t b = b_tile + T::offset((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
  clear(scores);
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    std::uint32_t af[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_matrices(af[m], (a ^ (k << 5)) + T::bytes(16 * m));
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t bf[4];
      load_matrices(bf, (b ^ (k << 5)) + T::bytes(8 * n));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add<Element>(scores[m][n], af[m], bf[0], bf[1]);
        multiply_add<Element>(scores[m][n + 1], af[m], bf[2], bf[3]);
      }
    }
  }
}

/// sums [16 M, D] += weights [16 M, 16 K] (the first 16 K rows of tile b).
template <class Element, int D, int M, int K>
__device__ void multiply_weights(float (&sums)[M][D / 8][4], const std::uint32_t (&weights)[M][K][4], std::uint32_t b_tile) {
  using T = Tile<D>;
  const int lane = lane_id();
  const std::uint32_t b = b_tile + T::offset(lane & 15, lane >> 4);  // two column tiles of 16 rows, transposed on the way
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      std::uint32_t bf[4];
      load_matrices_transposed(bf, (b ^ (n << 4)) + T::bytes(16 * k));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add<Element>(sums[m][n], weights[m][k], bf[0], bf[1]);
        multiply_add<Element>(sums[m][n + 1], weights[m][k], bf[2], bf[3]);
      }
    }
  }
}

template <class Element>
__device__ inline std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}
template <class Element>
__device__ inline float2 unpack(std::uint32_t pair) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
  } else {
    return __half22float2(reinterpret_cast<const __half2&>(pair));
  }
}

/// Sums become the left operand of a next product without leaving their lanes: two neighbouring 16 x 8 tiles of sums hold just
/// the elements that mma wants of one 16 x 16 tile.
template <class Element, int M, int N>
__device__ void pack_weights(std::uint32_t (&weights)[M][N / 2][4], const float (&sums)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      weights[m][n / 2][(n % 2) * 2] = pack<Element>(sums[m][n][0], sums[m][n][1]);
      weights[m][n / 2][(n % 2) * 2 + 1] = pack<Element>(sums[m][n][2], sums[m][n][3]);
    }
  }
}

/// Sets the scores of keys behind their query to minus infinity. `row` and `column` are the first; one counts queries, the other
/// keys, both by their positions in the sequence.
template <bool kRowsAreKeys, int M, int N>
__device__ void hide_future(float (&scores)[M][N][4], int row, int column) {
  const int difference = row + lane_id() / 4 - column - 2 * (lane_id() % 4);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int rows_ahead = difference + 16 * m + 8 * (i / 2) - 8 * n - i % 2;
        if (kRowsAreKeys ? rows_ahead > 0 : rows_ahead < 0) scores[m][n][i] = -INFINITY;
      }
    }
  }
}

/// The same for columns that are keys from `end` on. `column` is the first.
template <int M, int N>
__device__ void hide_columns(float (&scores)[M][N][4], int column, int end) {
  const int left = end - column - 2 * (lane_id() % 4);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (8 * n + i % 2 >= left) scores[m][n][i] = -INFINITY;
      }
    }
  }
}

/// The same for keys before the document of their query: of this lane's rows, `first` are the first keys that they see.
template <int M, int N>
__device__ void hide_earlier(float (&scores)[M][N][4], const int (&first)[M][2], int column) {
  const int own_column = column + 2 * (lane_id() % 4);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (own_column + 8 * n + i % 2 < first[m][i / 2]) scores[m][n][i] = -INFINITY;
      }
    }
  }
}

/// The same where rows are keys, the first of which is `row`: first_key(c) is the first key that the query of column c of the
/// tile sees.
template <int M, int N, class FirstKey>
__device__ void hide_earlier_rows(float (&scores)[M][N][4], int row, const FirstKey& first_key) {
  const int own_row = row + lane_id() / 4;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int first = first_key(8 * n + 2 * (lane_id() % 4) + side);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        if (own_row + 16 * m < first) scores[m][n][side] = -INFINITY;
        if (own_row + 16 * m + 8 < first) scores[m][n][2 + side] = -INFINITY;
      }
    }
  }
}

/// 2^x to about 2 units in the last place; 0 for minus infinity.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Calls f(element, std::integral_constant<int, D>) for the 16-bit element type and the width of the tiles that hold a head.
template <class F>
void with_kernel_types(DType dtype, int head_size, const F& f) {
  const auto with_element = [&](auto element) {
    if (head_size <= 32) {
      f(element, std::integral_constant<int, 32>{});
    } else if (head_size <= 64) {
      f(element, std::integral_constant<int, 64>{});
    } else {
      f(element, std::integral_constant<int, 128>{});
    }
  };
  if (dtype == DType::bf16) {
    with_element(__nv_bfloat16{});
  } else {
    with_element(__half{});
  }
}

}  // namespace cohort::ops::cuda::flash
