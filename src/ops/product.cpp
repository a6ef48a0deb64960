#include "ops/product.hpp"

#include "ops/teams.hpp"

namespace cohort::ops {
namespace {

// How a team cuts its tile of C: kDown x kAcross blocks of kRows x kColumns, each in the registers of one thread, which on a host
// takes them all in turn; kDepth columns of A and rows of B at a time are in the team's memory. The columns of a block come in
// groups of kGroup, kAcross * kGroup apart, so that neighbouring threads read neighbouring 16 bytes; kPad more floats between the
// rows of a tile keep threads that write down its columns off each other's memory banks.
struct GpuTiles {
  static constexpr int kRows = 8, kColumns = 8, kGroup = 4, kDown = 16, kAcross = 16, kDepth = 16, kPad = 4, kThreads = 256;
};
struct HostTiles {
  static constexpr int kRows = 6, kColumns = 16, kGroup = 16, kDown = 8, kAcross = 4, kDepth = 256, kPad = 0, kThreads = 1;
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
  Count k_share;   // how much of k a team takes; those of other shares are part_elements further on in C
  Count part_elements;

  KOKKOS_FUNCTION void store(Count i, Count j, float value) const {
    To& element = c[i * c_row + j * c_column];
    if (beta != 0.0f) value += to_float(element);
    if (addend != nullptr) value += to_float(addend[i * addend_row + j]);
    if (bias != nullptr) value += to_float(bias[j]);
    element = from_float<To>(value);
  }
};

// The lines (rows of A, columns of B) of one tile, which are put into a team's memory kDepth elements at a time: element k of
// line l at tile[k * kStride + l], zeros beyond the matrix. A thread of a GPU first fetches its share into registers, so that
// memory is read while the team still computes with what was put there before.
template <class Tiles, int kWidth, int kStride, class T>
class TileLines {
 public:
  // `from`: the first element of the first of `lines` lines of `depth` elements. One of the strides is 1.
  KOKKOS_FORCEINLINE_FUNCTION TileLines(const Team& team, const T* from, Count line_stride, Count depth_stride, Count lines,
                                        Count depth)
      : team_(team),
        from_(from),
        line_stride_(line_stride),
        depth_stride_(depth_stride),
        lines_(lines),
        depth_(depth),
        along_depth_(depth_stride == 1),
        in_packs_(in(from).is_aligned() && (along_depth_ ? line_stride : depth_stride) % kPack == 0) {}

#if COHORT_ON_DEVICE
  KOKKOS_FORCEINLINE_FUNCTION void fetch(Count k0) {
    for (int n = 0; n < kPacks; ++n) {
      const int line = line_of(n), k = k_of(n);
      const bool whole = (along_depth_ ? line < lines_ && k0 + k + kPack <= depth_ : line + kPack <= lines_ && k0 + k < depth_);
      if (in_packs_ && whole) {
        fetched_[n] = *reinterpret_cast<const Pack<T, kPack>*>(from_ + line * line_stride_ + (k0 + k) * depth_stride_);
        continue;
      }
      for (int i = 0; i < kPack; ++i) {
        const Count l = along_depth_ ? line : line + i, d = k0 + (along_depth_ ? k + i : k);
        fetched_[n].elements[i] = l < lines_ && d < depth_ ? from_[l * line_stride_ + d * depth_stride_] : T{};
      }
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION void put(float* tile) const {
    for (int n = 0; n < kPacks; ++n) {
      float* to = tile + k_of(n) * kStride + line_of(n);
      for (int i = 0; i < kPack; ++i) to[along_depth_ ? i * kStride : i] = to_float(fetched_[n].elements[i]);
    }
  }
#else
  KOKKOS_FORCEINLINE_FUNCTION void fetch(Count k0) { k0_ = k0; }
  KOKKOS_FORCEINLINE_FUNCTION void put(float* tile) const {
    for (int e = 0; e < kWidth * Tiles::kDepth; ++e) {
      const int line = along_depth_ ? e / Tiles::kDepth : e % kWidth;
      const int k = along_depth_ ? e % Tiles::kDepth : e / kWidth;
      const bool inside = line < lines_ && k0_ + k < depth_;
      tile[k * kStride + line] = inside ? to_float(from_[line * line_stride_ + (k0_ + k) * depth_stride_]) : 0.0f;
    }
  }
#endif

 private:
  static constexpr int kPack = kPackSize<In<T>>;
  static constexpr int kPacks = kWidth * Tiles::kDepth / (kPack * Tiles::kThreads);  // of a thread

  KOKKOS_FORCEINLINE_FUNCTION int line_of(int n) const {
    const int e = team_.thread() + n * Tiles::kThreads;
    return along_depth_ ? e / (Tiles::kDepth / kPack) : e % (kWidth / kPack) * kPack;
  }
  KOKKOS_FORCEINLINE_FUNCTION int k_of(int n) const {
    const int e = team_.thread() + n * Tiles::kThreads;
    return along_depth_ ? e % (Tiles::kDepth / kPack) * kPack : e / (kWidth / kPack);
  }

  const Team& team_;
  const T* from_;
  Count line_stride_, depth_stride_, lines_, depth_;
  bool along_depth_, in_packs_;
#if COHORT_ON_DEVICE
  Pack<T, kPack> fetched_[kPacks];
#else
  Count k0_ = 0;
#endif
};

// The block of a thread at `place` among those of its tile.
template <class Tiles>
struct Block {
  static constexpr int kHeight = Tiles::kRows * Tiles::kDown, kWidth = Tiles::kColumns * Tiles::kAcross;
  static constexpr int kRowStride = kHeight + Tiles::kPad, kColumnStride = kWidth + Tiles::kPad;
  int place;

  KOKKOS_FORCEINLINE_FUNCTION int row(int i) const { return place / Tiles::kAcross * Tiles::kRows + i; }
  KOKKOS_FORCEINLINE_FUNCTION int column(int j) const {
    return j / Tiles::kGroup * (Tiles::kAcross * Tiles::kGroup) + place % Tiles::kAcross * Tiles::kGroup + j % Tiles::kGroup;
  }

  // sums += the products of this block's rows and columns in the tiles of A and B.
  KOKKOS_FORCEINLINE_FUNCTION void add(float (&sums)[Tiles::kRows][Tiles::kColumns], const float* tile_a,
                                       const float* tile_b) const {
    for (int k = 0; k < Tiles::kDepth; ++k) {
#if COHORT_ON_DEVICE
      float a[Tiles::kRows], b[Tiles::kColumns];
      for (int i = 0; i < Tiles::kRows; i += 4) {
        const auto four = *reinterpret_cast<const Pack<float, 4>*>(tile_a + k * kRowStride + row(i));
        for (int e = 0; e < 4; ++e) a[i + e] = four.elements[e];
      }
      for (int j = 0; j < Tiles::kColumns; j += 4) {
        const auto four = *reinterpret_cast<const Pack<float, 4>*>(tile_b + k * kColumnStride + column(j));
        for (int e = 0; e < 4; ++e) b[j + e] = four.elements[e];
      }
      for (int i = 0; i < Tiles::kRows; ++i) {
        for (int j = 0; j < Tiles::kColumns; ++j) sums[i][j] += a[i] * b[j];
      }
#else
      const float* a = tile_a + k * kRowStride + row(0);
      const float* b = tile_b + k * kColumnStride + column(0);
      for (int i = 0; i < Tiles::kRows; ++i) {
        const float factor = a[i];
#pragma omp simd
        for (int j = 0; j < Tiles::kColumns; ++j) sums[i][j] += factor * b[j];
      }
#endif
    }
  }
};

template <class Tiles, class To, class From>
KOKKOS_INLINE_FUNCTION void compute_tile(const Team& team, Product<To, From> p, Count tiles_down, Count tiles_across) {
  using Place = Block<Tiles>;
  constexpr int kBlocks = Tiles::kDown * Tiles::kAcross / Tiles::kThreads;  // of each thread
  const Count first_row = team.index() / tiles_across % tiles_down * Place::kHeight;
  const Count first_column = team.index() % tiles_across * Place::kWidth;
  const Count share = team.index() / tiles_across / tiles_down, first_k = share * p.k_share;
  const Count depth = p.k - first_k < p.k_share ? p.k - first_k : p.k_share;
  p.c += share * p.part_elements;
  float* tile_a = team.scratch();
  float* tile_b = tile_a + Place::kRowStride * Tiles::kDepth;
  float sums[kBlocks][Tiles::kRows][Tiles::kColumns] = {};
  TileLines<Tiles, Place::kHeight, Place::kRowStride, From> a(team, p.a + first_row * p.a_row + first_k * p.a_column, p.a_row,
                                                              p.a_column, p.m - first_row, depth);
  TileLines<Tiles, Place::kWidth, Place::kColumnStride, From> b(team, p.b + first_column * p.b_column + first_k * p.b_row,
                                                                p.b_column, p.b_row, p.n - first_column, depth);
  a.fetch(0);
  b.fetch(0);
  for (Count k0 = 0; k0 < depth; k0 += Tiles::kDepth) {
    a.put(tile_a);
    b.put(tile_b);
    team.barrier();
    a.fetch(k0 + Tiles::kDepth);
    b.fetch(k0 + Tiles::kDepth);
    for (int block = 0; block < kBlocks; ++block) {
      float part[Tiles::kRows][Tiles::kColumns];  // in registers, where an element of `sums` may be in memory
      for (int i = 0; i < Tiles::kRows; ++i) {
        for (int j = 0; j < Tiles::kColumns; ++j) part[i][j] = sums[block][i][j];
      }
      Place{team.thread() + block * Tiles::kThreads}.add(part, tile_a, tile_b);
      for (int i = 0; i < Tiles::kRows; ++i) {
        for (int j = 0; j < Tiles::kColumns; ++j) sums[block][i][j] = part[i][j];
      }
    }
    team.barrier();
  }
  for (int block = 0; block < kBlocks; ++block) {
    const Place place{team.thread() + block * Tiles::kThreads};
    for (int i = 0; i < Tiles::kRows; ++i) {
      for (int j = 0; j < Tiles::kColumns; ++j) {
        const Count row = first_row + place.row(i), column = first_column + place.column(j);
        if (row < p.m && column < p.n) p.store(row, column, sums[block][i][j]);
      }
    }
  }
}

template <class Tiles, class To, class From>
void launch(const Exec& exec, const Product<To, From>& p, Count shares) {
  using Place = Block<Tiles>;
  const Count down = (p.m + Place::kHeight - 1) / Place::kHeight, across = (p.n + Place::kWidth - 1) / Place::kWidth;
  for_teams(
      exec, "cohort::product", shares * down * across, Tiles::kThreads,
      (Place::kRowStride + Place::kColumnStride) * Tiles::kDepth,
      KOKKOS_LAMBDA(const Team& team) { compute_tile<Tiles>(team, p, down, across); });
}

// C += the products of shares of a long k, which are summed afterwards, in their order. The gradients of weights are such
// products: of too few tiles for all of a GPU.
template <class To, class From>
void launch_in_shares(const Exec& exec, const Product<To, From>& p, Count shares) {
  const Count k_share = ((p.k + shares - 1) / shares + GpuTiles::kDepth - 1) / GpuTiles::kDepth * GpuTiles::kDepth;
  const Count parts = (p.k + k_share - 1) / k_share;
  auto* const part = static_cast<float*>(gpu::workspace());
  launch<GpuTiles>(exec,
                   Product<float, From>{part, p.a, p.b, p.m, p.n, p.k, p.n, 1, p.a_row, p.a_column, p.b_row, p.b_column, 0.0f,
                                        nullptr, 0, nullptr, k_share, p.m * p.n},
                   parts);
  for_elements(
      exec, "cohort::product_parts", p.m, p.n, KOKKOS_LAMBDA(Count i, Count j) {
        float sum = 0.0f;
        for (Count share = 0; share < parts; ++share) sum += part[(share * p.m + i) * p.n + j];
        p.store(i, j, sum);
      });
}

template <class To, class From>
void launch_on_gpu(const Exec& exec, const Product<To, From>& p) {
  using Place = Block<GpuTiles>;
  constexpr Count kEnoughTiles = 528, kShortestShare = 1024;  // two teams for each of 132 multiprocessors, twice over
  const Count tiles = (p.m + Place::kHeight - 1) / Place::kHeight * ((p.n + Place::kWidth - 1) / Place::kWidth);
  const Count fitting = gpu::kWorkspaceBytes / (p.m * p.n * static_cast<Bytes>(sizeof(float)));
  const Count shares = std::min({(kEnoughTiles + tiles - 1) / tiles, p.k / kShortestShare, fitting});
  if (tiles >= kEnoughTiles / 2 || shares < 2) return launch<GpuTiles>(exec, p, 1);
  launch_in_shares(exec, p, shares);
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
                                  bias.defined() ? bias.data<To>() : nullptr,
                                  a.columns,
                                  0};
  if (exec.gpu()) return launch_on_gpu(exec, product);
  launch<HostTiles>(exec, product, 1);
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
  if (counting()) return;
  with_storage_type(Tensor::wrap(a.data, {1}, a.dtype), [&]<class From>(From) {
    if (c.dtype == a.dtype) return run<From, From>(exec, c, a, b, beta, addend, bias);
    run<float, From>(exec, c, a, b, beta, addend, bias);
  });
}

}  // namespace cohort::ops
