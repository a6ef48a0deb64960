#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/common/reduce.cuh"
#include "ops/cuda/decode/decode_kernels.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kWarps = 8;  // of a block
// Packs of the weight that a lane has on their way: with 16 warps on a multiprocessor 32 KiB, what the memory's latency asks for.
constexpr int kAhead = 4;
constexpr int kMostRows = 8;  // that share one reading of the weight
// Warps that keep a device busy: where there are fewer outputs, several warps share one.
constexpr Count kWarpsOfDevice = 4096;

template <class T, int kVec, int kRows>
__device__ __forceinline__ void add_products(float (&sums)[kRows], const Pack<T, kVec>& weight, const T* x, Count k, int place,
                                             int last_row) {
  float w[kVec];
  widen(w, weight);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float values[kVec];
    widen(values, load<T, kVec>(x + min(r, last_row) * k + place));  // rows that are not there are those of the last one
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[r] = fmaf(values[i], w[i], sums[r]);
  }
}

// `share` neighbouring warps take an output, for kRows rows of x. What a row's sum consists of, and in which order, is the same
// for every kRows.
template <class T, int kVec, int kRows>
__global__ void __launch_bounds__(32 * kWarps) products(RowProductArrays p, int share) {
  __shared__ float shared[kWarps][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Count output = Count{blockIdx.x} * (kWarps / share) + warp / share;
  const Count first_row = Count{blockIdx.y} * kRows;
  const int rows = static_cast<int>(min(Count{kRows}, p.rows - first_row));
  float sums[kRows] = {};
  if (output < p.n) {
    const T* const weight = static_cast<const T*>(p.weight) + output * p.k;
    const T* const x = static_cast<const T*>(p.x) + first_row * p.k;
    const int packs = static_cast<int>(p.k / kVec), step = 32 * share;
    int pack = warp % share * 32 + lane;
    for (; pack + (kAhead - 1) * step < packs; pack += kAhead * step) {
      Pack<T, kVec> held[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) held[a] = load<T, kVec>(weight + (pack + a * step) * kVec);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) add_products(sums, held[a], x, p.k, (pack + a * step) * kVec, rows - 1);
    }
    for (; pack < packs; pack += step) add_products(sums, load<T, kVec>(weight + pack * kVec), x, p.k, pack * kVec, rows - 1);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = warp_sum(sums[r]);
  if (lane == 0) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) shared[warp][r] = sums[r];
  }
  __syncthreads();
  if (warp % share != 0 || output >= p.n || lane >= rows) return;
  float sum = 0.0f;
  for (int part = 0; part < share; ++part) sum += shared[warp + part][lane];
  const Count row = first_row + lane;
  if (p.residual != nullptr) sum += to_float(static_cast<const T*>(p.residual)[row * p.n + output]);
  if (p.bias != nullptr) sum += to_float(static_cast<const T*>(p.bias)[output]);
  static_cast<T*>(p.y)[row * p.y_stride + output] = from_float<T>(sum);
}

// Of the sizes of the weight alone, so that the bits are, too.
int warps_of_output(const RowProductArrays& p, int vec) {
  int share = 1;
  while (share < kWarps && p.n * share < kWarpsOfDevice && p.k >= Count{2} * share * 32 * vec) share *= 2;
  return share;
}

template <class T, int kVec, int kRows>
void launch_rows(CUstream_st* stream, const RowProductArrays& p) {
  const int share = warps_of_output(p, kVec);
  const dim3 grid(static_cast<unsigned>(divide_up(p.n, kWarps / share)), static_cast<unsigned>(divide_up(p.rows, kRows)));
  products<T, kVec, kRows><<<grid, 32 * kWarps, 0, stream>>>(p, share);
}

template <class T, int kVec>
void launch(CUstream_st* stream, const RowProductArrays& p) {
  if (p.rows == 1) return launch_rows<T, kVec, 1>(stream, p);
  if (p.rows == 2) return launch_rows<T, kVec, 2>(stream, p);
  if (p.rows <= 4) return launch_rows<T, kVec, 4>(stream, p);
  launch_rows<T, kVec, kMostRows>(stream, p);
}

}  // namespace

void row_product(CUstream_st* stream, DType dtype, const RowProductArrays& arrays) {
  if (arrays.rows == 0 || arrays.n == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    // By the length of rows, not by where they lie: rows of wide lengths are aligned wherever the memory begins as the tensors'.
    if (is_wide<T>(arrays.k, arrays.x, arrays.weight)) return launch<T, kWide<T>>(stream, arrays);
    launch<T, 1>(stream, arrays);
  });
}

}  // namespace cohort::ops::cuda
