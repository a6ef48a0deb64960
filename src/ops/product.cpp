#include "ops/product.hpp"

#include "ops/teams.hpp"

namespace cohort::ops {
namespace {

// How a team cuts its tile of C: kDown x kAcross blocks of kRows x kColumns, each in the registers of one thread, which on a host
// takes them all in turn; kDepth columns of A and rows of B at a time are in the team's memory.
struct GpuTiles {
  static constexpr int kRows = 8, kColumns = 8, kDown = 16, kAcross = 16, kDepth = 16, kThreads = 256;
};
struct HostTiles {
  static constexpr int kRows = 6, kColumns = 16, kDown = 8, kAcross = 4, kDepth = 256, kThreads = 1;
};

template <class To, class From>
struct Product {
  To* c;
  const From* a;
  const From* b;
  Count m, n, k;
  Count c_row, c_column, a_row, a_column, b_row, b_column;  // strides
  float beta;
  const To* addend;  // null: none; rows as those of the tensor
  Count addend_row;
  const To* bias;  // null: none

  KOKKOS_FUNCTION void store(Count i, Count j, float value) const {
    To& element = c[i * c_row + j * c_column];
    if (beta != 0.0f) value += to_float(element);
    if (addend != nullptr) value += to_float(addend[i * addend_row + j]);
    if (bias != nullptr) value += to_float(bias[j]);
    element = from_float<To>(value);
  }
};

// Copies `lines` lines of `depth` elements into tile[k * kWidth + line], zeros beyond the matrix. Neighbouring threads read
// neighbouring elements, whichever way the matrix lies.
template <int kWidth, int kDepth, class T>
KOKKOS_INLINE_FUNCTION void load_tile(const Team& team, float* tile, const T* from, Count line_stride, Count depth_stride,
                                      Count lines, Count depth) {
  const bool along_depth = depth_stride == 1;
  team.each(kWidth * kDepth, [=](int e) {
    const int line = along_depth ? e / kDepth : e % kWidth;
    const int k = along_depth ? e % kDepth : e / kWidth;
    tile[k * kWidth + line] = line < lines && k < depth ? to_float(from[line * line_stride + k * depth_stride]) : 0.0f;
  });
}

template <class Tiles, class To, class From>
KOKKOS_INLINE_FUNCTION void compute_tile(const Team& team, const Product<To, From>& p, Count tiles_across) {
  constexpr int kHeight = Tiles::kRows * Tiles::kDown, kWidth = Tiles::kColumns * Tiles::kAcross;
  constexpr int kBlocks = Tiles::kDown * Tiles::kAcross / Tiles::kThreads;  // of each thread
  const Count first_row = team.index() / tiles_across * kHeight, first_column = team.index() % tiles_across * kWidth;
  float* tile_a = team.scratch();
  float* tile_b = tile_a + kHeight * Tiles::kDepth;
  float sums[kBlocks][Tiles::kRows][Tiles::kColumns] = {};
  for (Count k0 = 0; k0 < p.k; k0 += Tiles::kDepth) {
    load_tile<kHeight, Tiles::kDepth>(team, tile_a, p.a + first_row * p.a_row + k0 * p.a_column, p.a_row, p.a_column,
                                      p.m - first_row, p.k - k0);
    load_tile<kWidth, Tiles::kDepth>(team, tile_b, p.b + first_column * p.b_column + k0 * p.b_row, p.b_column, p.b_row,
                                     p.n - first_column, p.k - k0);
    team.barrier();
    for (int block = 0; block < kBlocks; ++block) {
      const int place = team.thread() + block * Tiles::kThreads;
      const float* a = tile_a + place / Tiles::kAcross * Tiles::kRows;
      const float* b = tile_b + place % Tiles::kAcross * Tiles::kColumns;
      float part[Tiles::kRows][Tiles::kColumns];
      for (int i = 0; i < Tiles::kRows; ++i) {
        for (int j = 0; j < Tiles::kColumns; ++j) part[i][j] = sums[block][i][j];
      }
      for (int k = 0; k < Tiles::kDepth; ++k) {
        for (int i = 0; i < Tiles::kRows; ++i) {
          const float factor = a[k * kHeight + i];
#pragma omp simd
          for (int j = 0; j < Tiles::kColumns; ++j) part[i][j] += factor * b[k * kWidth + j];
        }
      }
      for (int i = 0; i < Tiles::kRows; ++i) {
        for (int j = 0; j < Tiles::kColumns; ++j) sums[block][i][j] = part[i][j];
      }
    }
    team.barrier();
  }
  for (int block = 0; block < kBlocks; ++block) {
    const int place = team.thread() + block * Tiles::kThreads;
    const Count row = first_row + place / Tiles::kAcross * Tiles::kRows;
    const Count column = first_column + place % Tiles::kAcross * Tiles::kColumns;
    for (int i = 0; i < Tiles::kRows; ++i) {
      for (int j = 0; j < Tiles::kColumns; ++j) {
        if (row + i < p.m && column + j < p.n) p.store(row + i, column + j, sums[block][i][j]);
      }
    }
  }
}

template <class Tiles, class To, class From>
void launch(const Exec& exec, const Product<To, From>& p) {
  constexpr int kHeight = Tiles::kRows * Tiles::kDown, kWidth = Tiles::kColumns * Tiles::kAcross;
  const Count down = (p.m + kHeight - 1) / kHeight, across = (p.n + kWidth - 1) / kWidth;
  for_teams(
      exec, "cohort::product", down * across, Tiles::kThreads, (kHeight + kWidth) * Tiles::kDepth,
      KOKKOS_LAMBDA(const Team& team) { compute_tile<Tiles>(team, p, across); });
}

template <class To, class From>
void run(const Exec& exec, const StridedMatrix& c, const StridedMatrix& a, const StridedMatrix& b, float beta,
         const Tensor& addend, const Tensor& bias) {
  const Product<To, From> product{static_cast<To*>(c.data),
                                  static_cast<const From*>(a.data),
                                  static_cast<const From*>(b.data),
                                  c.rows,
                                  c.columns,
                                  a.columns,
                                  c.row_stride,
                                  c.column_stride,
                                  a.row_stride,
                                  a.column_stride,
                                  b.row_stride,
                                  b.column_stride,
                                  beta,
                                  addend.defined() ? addend.data<To>() : nullptr,
                                  addend.defined() ? addend.shape().columns() : 0,
                                  bias.defined() ? bias.data<To>() : nullptr};
  if (exec.gpu()) return launch<GpuTiles>(exec, product);
  launch<HostTiles>(exec, product);
}

}  // namespace

StridedMatrix strided(const Tensor& tensor, Count columns) {
  const Count stride = tensor.shape().columns();
  COHORT_CHECK(columns <= stride, "product: {} for {} columns", tensor.shape().str(), columns);
  return {tensor.raw(), tensor.dtype(), tensor.shape().rows(), columns, stride, 1};
}

void portable_product(const Exec& exec, const StridedMatrix& c, const StridedMatrix& a, const StridedMatrix& b, float beta,
                      const Tensor& addend, const Tensor& bias) {
  COHORT_CHECK(c.rows == a.rows && c.columns == b.columns && a.columns == b.rows, "product: C [{}, {}] = A [{}, {}] B [{}, {}]",
               c.rows, c.columns, a.rows, a.columns, b.rows, b.columns);
  COHORT_CHECK(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::f32), "product: {} from {} and {}",
               name_of(c.dtype), name_of(a.dtype), name_of(b.dtype));
  COHORT_CHECK((!addend.defined() || (addend.shape().rows() == c.rows && addend.shape().columns() >= c.columns)) &&
                   (!bias.defined() || bias.elements() == c.columns),
               "product: C [{}, {}] + {} + {}", c.rows, c.columns, addend.shape().str(), bias.shape().str());
  with_storage_type(Tensor::wrap(a.data, {1}, a.dtype), [&]<class From>(From) {
    if (c.dtype == a.dtype) return run<From, From>(exec, c, a, b, beta, addend, bias);
    run<float, From>(exec, c, a, b, beta, addend, bias);
  });
}

}  // namespace cohort::ops
