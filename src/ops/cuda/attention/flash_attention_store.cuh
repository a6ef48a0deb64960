// How the warps of the 16-bit flash attention kernels write their results.
#pragma once

#include "ops/cuda/attention/flash_attention_common.cuh"
#include "ops/cuda/attention/flash_attention_tiles.cuh"

namespace cohort::ops::cuda::flash {

/// Writes the sums of a warp, each row times its `scale`, to rows [begin, end) of a head in global memory. The way is through the
/// warp's own rows of a tile (`tile_row` on), so that whole pieces of 16 bytes are written; no other warp may be using these
/// rows.
template <class Element, int D, int M>
__device__ void store_rows(Element* head, int stride, int begin, int end, int head_size, std::uint32_t tile, int tile_row,
                           const float (&sums)[M][D / 8][4], const float (&scale)[M][2]) {
  using T = Tile<D>;
  const int lane = lane_id();
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t address = tile + T::offset(tile_row + 16 * m + 8 * half + lane / 4, n) + 4 * (lane % 4);
        const std::uint32_t pair =
            pack<Element>(sums[m][n][2 * half] * scale[m][half], sums[m][n][2 * half + 1] * scale[m][half]);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(pair) : "memory");
      }
    }
  }
  __syncwarp();
  const int piece = lane % T::kPieces;
#pragma unroll
  for (int row = 0; row < 16 * M; row += kWarpSize / T::kPieces) {
    const int r = row + lane / T::kPieces;
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(tile + T::offset(tile_row + r, piece))
                 : "memory");
    if (begin + r < end && piece * 8 < head_size) {
      *reinterpret_cast<uint4*>(head + static_cast<std::uint32_t>((begin + r) * stride + piece * 8)) = value;
    }
  }
}

/// The same in fp32, straight from the registers: four lanes fill the 32 bytes of a sector. With `add` on top of what is there.
template <int D, int M>
__device__ void store_fp32_rows(float* head, int stride, int begin, int end, int head_size, const float (&sums)[M][D / 8][4],
                                const float (&scale)[M][2], bool add) {
  const int column = 2 * (lane_id() % 4);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = begin + 16 * m + 8 * half + lane_id() / 4;
      if (r >= end) continue;
      float* const row = head + static_cast<std::uint32_t>(r * stride + column);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        if (8 * n >= head_size) continue;
        auto* const pair = reinterpret_cast<float2*>(row + 8 * n);
        const float2 before = add ? *pair : float2{0.0f, 0.0f};
        *pair = float2{fmaf(sums[m][n][2 * half], scale[m][half], before.x),
                       fmaf(sums[m][n][2 * half + 1], scale[m][half], before.y)};
      }
    }
  }
}

/// The sums of a warp, each row times its `scale`, into a gradient: overwrites elements, or adds to the fp32 numbers of a block.
/// The other parameters are those of store_rows.
template <class Element, int D, int M>
__device__ void store_gradient(void* gradient, Count offset, const Sizes& s, int stride, int begin, int end, std::uint32_t tile,
                               int tile_row, const float (&sums)[M][D / 8][4], const float (&scale)[M][2]) {
  if (s.block) {
    store_fp32_rows<D>(static_cast<float*>(gradient) + offset, stride, begin, end, s.head_size, sums, scale, true);
  } else {
    store_rows<Element, D>(static_cast<Element*>(gradient) + offset, stride, begin, end, s.head_size, tile, tile_row, sums,
                           scale);
  }
}

}  // namespace cohort::ops::cuda::flash
