#include "ops/cuda/common/fast_math.cuh"
#include "ops/cuda/pointwise/pointwise.hpp"
#include "ops/cuda/sums/columns.cuh"

namespace cohort::ops::cuda {
namespace {

// Rows of one thread whose packs are on their way at one time.
constexpr int kForwardRows = 4;
constexpr int kBackwardRows = 2;

// z/2 (1 + tanh(u)) = z sigmoid(2u), with u = sqrt(2/pi) (z + 0.044715 z^3). The factors of the sigmoid's exponential are folded
// into the polynomial: every instruction counts where an element of bf16 takes only 4 bytes.
struct Gelu {
  static constexpr float kLinear = 1.5957691216057308f;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715f * kLinear;

  static __device__ float gate(float z, float square) {
    return falling_sigmoid2(z * fmaf(-kLog2e * kCubic, square, -kLog2e * kLinear));
  }
  static __device__ float value(float z) { return z * gate(z, z * z); }
  static __device__ float slope(float z) {
    const float square = z * z;
    const float s = gate(z, square);
    return fmaf(z * s * (1.0f - s), fmaf(3.0f * kCubic, square, kLinear), s);
  }
};

struct Relu {
  static __device__ float value(float z) { return z < 0.0f ? 0.0f : z; }  // NaN stays NaN
  static __device__ float slope(float z) { return z > 0.0f ? 1.0f : 0.0f; }
};

template <class Function, class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    activation_forward(T* out, const T* x, const T* __restrict__ bias, Count rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  if (column >= columns) return;
  const Count row = at.block * kForwardRows * blockDim.y + threadIdx.y;
  const Count first = row * columns + column;
  const Count step = blockDim.y * columns;
  float b[kVec];
  widen(b, bias != nullptr ? load<T, kVec>(bias + column) : zeros<T, kVec>());
  Pack<T, kVec> packs[kForwardRows];
#pragma unroll
  for (int k = 0; k < kForwardRows; ++k) {
    if (row + k * blockDim.y < rows) packs[k] = load<T, kVec>(x + first + k * step);
  }
#pragma unroll
  for (int k = 0; k < kForwardRows; ++k) {
    if (row + k * blockDim.y >= rows) return;
    float values[kVec];
    widen(values, packs[k]);
#pragma unroll
    for (int i = 0; i < kVec; ++i) values[i] = Function::value(values[i] + b[i]);
    store(out + first + k * step, narrow<T>(values));
  }
}

// dx may be dout: every element is read before it is written, by the same thread.
template <class Function, class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    activation_backward(T* dx, float* dbias, float* partials, const T* dout, const T* __restrict__ x, const T* __restrict__ bias,
                        Count rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  const unsigned blocks_high = gridDim.x / tiles;
  float sum[kVec] = {};
  if (column < columns) {
    float b[kVec];
    widen(b, bias != nullptr ? load<T, kVec>(bias + column) : zeros<T, kVec>());
    const Count step = Count{blocks_high} * blockDim.y;
    for (Count row = at.block * blockDim.y + threadIdx.y; row < rows; row += kBackwardRows * step) {
      const Count first = row * columns + column;
      Pack<T, kVec> douts[kBackwardRows];
      Pack<T, kVec> xs[kBackwardRows];
#pragma unroll
      for (int k = 0; k < kBackwardRows; ++k) {
        if (row + k * step >= rows) continue;
        douts[k] = load<T, kVec>(dout + first + k * step * columns);
        xs[k] = load<T, kVec>(x + first + k * step * columns);
      }
#pragma unroll
      for (int k = 0; k < kBackwardRows; ++k) {
        if (row + k * step >= rows) continue;
        float d[kVec];
        float z[kVec];
        widen(d, douts[k]);
        widen(z, xs[k]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) d[i] *= Function::slope(z[i] + b[i]);
        const Pack<T, kVec> stored = narrow<T>(d);
        store(dx + first + k * step * columns, stored);
        widen(d, stored);
#pragma unroll
        for (int i = 0; i < kVec; ++i) sum[i] += d[i];
      }
    }
  }
  if (dbias != nullptr) finish_column_sums(sum, at, dbias, partials, columns, blocks_high == 1);
}

template <class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    swiglu_forward_kernel(T* __restrict__ out, const T* __restrict__ x, Count rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  if (column >= columns) return;
  const Count row = at.block * kForwardRows * blockDim.y + threadIdx.y;
  const Count first = row * columns + column;
  const Count step = blockDim.y * columns;
  const T* const gate_in = x + first + row * columns;
  Pack<T, kVec> gates[kForwardRows];
  Pack<T, kVec> ups[kForwardRows];
#pragma unroll
  for (int k = 0; k < kForwardRows; ++k) {
    if (row + k * blockDim.y >= rows) continue;
    gates[k] = load<T, kVec>(gate_in + 2 * k * step);
    ups[k] = load<T, kVec>(gate_in + 2 * k * step + columns);
  }
#pragma unroll
  for (int k = 0; k < kForwardRows; ++k) {
    if (row + k * blockDim.y >= rows) return;
    float gate[kVec];
    float up[kVec];
    widen(gate, gates[k]);
    widen(up, ups[k]);
#pragma unroll
    for (int i = 0; i < kVec; ++i) up[i] *= gate[i] * sigmoid(gate[i]);
    store(out + first + k * step, narrow<T>(up));
  }
}

// dx may be x: every element is read before it is written, by the same thread.
template <class T, int kVec>
__global__ void __launch_bounds__(kTileThreads)
    swiglu_backward_kernel(T* dx, const T* __restrict__ dout, const T* x, Count rows, Count columns, unsigned tiles) {
  const TilePosition at(tiles);
  const Count column = at.pack * kVec;
  if (column >= columns) return;
  const Count row = at.block * kBackwardRows * blockDim.y + threadIdx.y;
  const Count first = row * columns + column;
  const Count step = blockDim.y * columns;
  const T* const gate_in = x + first + row * columns;
  T* const gate_out = dx + first + row * columns;
  Pack<T, kVec> douts[kBackwardRows];
  Pack<T, kVec> gates[kBackwardRows];
  Pack<T, kVec> ups[kBackwardRows];
#pragma unroll
  for (int k = 0; k < kBackwardRows; ++k) {
    if (row + k * blockDim.y >= rows) continue;
    douts[k] = load<T, kVec>(dout + first + k * step);
    gates[k] = load<T, kVec>(gate_in + 2 * k * step);
    ups[k] = load<T, kVec>(gate_in + 2 * k * step + columns);
  }
#pragma unroll
  for (int k = 0; k < kBackwardRows; ++k) {
    if (row + k * blockDim.y >= rows) return;
    float d[kVec];
    float gate[kVec];
    float up[kVec];
    widen(d, douts[k]);
    widen(gate, gates[k]);
    widen(up, ups[k]);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float s = sigmoid(gate[i]);
      const float silu = gate[i] * s;
      gate[i] = d[i] * up[i] * (s + silu * (1.0f - s));
      up[i] = d[i] * silu;
    }
    store(gate_out + 2 * k * step, narrow<T>(gate));
    store(gate_out + 2 * k * step + columns, narrow<T>(up));
  }
}

template <class Function, class T, int kVec>
void launch_forward(CUstream_st* stream, T* out, const T* x, const T* bias, Count rows, Count columns) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const unsigned grid = tiles.blocks(divide_up(rows, Count{kForwardRows} * tiles.block.y));
  activation_forward<Function, T, kVec><<<grid, tiles.block, 0, stream>>>(out, x, bias, rows, columns, tiles.tiles);
}

template <class Function, class T, int kVec>
void launch_backward(CUstream_st* stream, T* dx, float* dbias, const T* dout, const T* x, const T* bias, Count rows,
                     Count columns, float* partials) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const Count blocks = column_sum_blocks(activation_backward<Function, T, kVec>, tiles, rows, columns);
  activation_backward<Function, T, kVec>
      <<<tiles.blocks(blocks), tiles.block, 0, stream>>>(dx, dbias, partials, dout, x, bias, rows, columns, tiles.tiles);
  if (dbias != nullptr && blocks > 1) add_column_partials(stream, {{dbias}}, partials, 1, blocks, columns);
}

template <class Function>
void forward(CUstream_st* stream, DType dtype, void* out, const void* x, const void* bias, Count rows, Count columns) {
  if (rows == 0 || columns == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(columns, out, x, bias);
    const auto launch = wide ? launch_forward<Function, T, kWide<T>> : launch_forward<Function, T, 1>;
    launch(stream, static_cast<T*>(out), static_cast<const T*>(x), static_cast<const T*>(bias), rows, columns);
  });
}

template <class Function>
void backward(CUstream_st* stream, DType dtype, void* dx, float* dbias, const void* dout, const void* x, const void* bias,
              Count rows, Count columns, void* scratch) {
  if (rows == 0 || columns == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(columns, dx, dout, x, bias);
    const auto launch = wide ? launch_backward<Function, T, kWide<T>> : launch_backward<Function, T, 1>;
    launch(stream, static_cast<T*>(dx), dbias, static_cast<const T*>(dout), static_cast<const T*>(x), static_cast<const T*>(bias),
           rows, columns, static_cast<float*>(scratch));
  });
}

template <class T, int kVec>
void launch_swiglu_forward(CUstream_st* stream, T* out, const T* x, Count rows, Count columns) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const unsigned grid = tiles.blocks(divide_up(rows, Count{kForwardRows} * tiles.block.y));
  swiglu_forward_kernel<T, kVec><<<grid, tiles.block, 0, stream>>>(out, x, rows, columns, tiles.tiles);
}

template <class T, int kVec>
void launch_swiglu_backward(CUstream_st* stream, T* dx, const T* dout, const T* x, Count rows, Count columns) {
  const ColumnTiles tiles = column_tiles(columns / kVec);
  const unsigned grid = tiles.blocks(divide_up(rows, Count{kBackwardRows} * tiles.block.y));
  swiglu_backward_kernel<T, kVec><<<grid, tiles.block, 0, stream>>>(dx, dout, x, rows, columns, tiles.tiles);
}

}  // namespace

void gelu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, const void* bias, Count rows, Count columns) {
  forward<Gelu>(stream, dtype, out, x, bias, rows, columns);
}
void gelu_backward(CUstream_st* stream, DType dtype, void* dx, float* dbias, const void* dout, const void* x, const void* bias,
                   Count rows, Count columns, void* scratch) {
  backward<Gelu>(stream, dtype, dx, dbias, dout, x, bias, rows, columns, scratch);
}
void relu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, const void* bias, Count rows, Count columns) {
  forward<Relu>(stream, dtype, out, x, bias, rows, columns);
}
void relu_backward(CUstream_st* stream, DType dtype, void* dx, float* dbias, const void* dout, const void* x, const void* bias,
                   Count rows, Count columns, void* scratch) {
  backward<Relu>(stream, dtype, dx, dbias, dout, x, bias, rows, columns, scratch);
}

void swiglu_forward(CUstream_st* stream, DType dtype, void* out, const void* x, Count rows, Count columns) {
  if (rows == 0 || columns == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(columns, out, x);
    const auto launch = wide ? launch_swiglu_forward<T, kWide<T>> : launch_swiglu_forward<T, 1>;
    launch(stream, static_cast<T*>(out), static_cast<const T*>(x), rows, columns);
  });
}
void swiglu_backward(CUstream_st* stream, DType dtype, void* dx, const void* dout, const void* x, Count rows, Count columns) {
  if (rows == 0 || columns == 0) return;
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = is_wide<T>(columns, dx, dout, x);
    const auto launch = wide ? launch_swiglu_backward<T, kWide<T>> : launch_swiglu_backward<T, 1>;
    launch(stream, static_cast<T*>(dx), static_cast<const T*>(dout), static_cast<const T*>(x), rows, columns);
  });
}

}  // namespace cohort::ops::cuda
