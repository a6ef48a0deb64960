// The host's side of the Hopper attention kernels: where the rows of whole attention and of a block lie, tensor maps over them,
// and the order in which a kernel takes their tiles.
#pragma once

#include <cudaTypedefs.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>

#include "ops/cuda/attention/flash_attention.hpp"
#include "ops/cuda/attention/flash_attention_hopper.cuh"

namespace cohort::ops::cuda::hopper {

/// A problem without its order, and what its tensor maps and pointers begin at. Of whole attention, q, k and v lie in one row.
struct Layout {
  Problem problem;
  Count batch;
  Count q_width, kv_width;
  Count query_rows, key_rows;    // of a sample
  Count first_query, first_key;  // the row that is row 0 of the problem

  Count first_out() const { return first_query * problem.out.stride; }
};

inline Layout layout_of(const AttentionShape& shape) {
  const Rows packed{shape.tokens * shape.packed_width(), shape.packed_width()};
  Problem problem{};
  problem.queries = problem.keys = problem.lse_rows = static_cast<int>(shape.tokens);
  problem.causal = true;
  problem.heads = static_cast<int>(shape.heads);
  problem.kv_heads = static_cast<int>(shape.kv_heads);
  problem.first_key = static_cast<int>(shape.width());
  problem.out = {shape.tokens * shape.width(), shape.width()};
  problem.dq = problem.dkv = packed;
  problem.scale = 1.0f / sqrtf(static_cast<float>(shape.head_size));
  problem.first_keys = shape.first_keys;
  problem.tokens = static_cast<int>(shape.tokens);
  return {problem, shape.batch, packed.stride, packed.stride, shape.tokens, shape.tokens, 0, 0};
}

inline Layout layout_of(const FlashBlock& block) {
  const AttentionShape& shape = block.sequence;
  const Count kv_width = 2 * shape.kv_heads * shape.head_size;
  Problem problem = layout_of(shape).problem;
  problem.queries = static_cast<int>(block.queries.count);
  problem.keys = static_cast<int>(block.keys.count);
  problem.lse_rows = static_cast<int>(block.query_rows);
  problem.causal = !block.full();
  problem.first_key = 0;
  problem.out = problem.dq = {block.query_rows * shape.width(), shape.width()};
  problem.dkv = {block.key_rows * kv_width, kv_width};
  problem.block = true;
  problem.query_position = static_cast<int>(block.queries.position);
  problem.key_position = static_cast<int>(block.keys.position);
  return {problem, shape.batch, block.query_width, kv_width, block.query_rows, block.key_rows, block.queries.row, block.keys.row};
}

/// A tensor map over `count` rows from row `first` of each sample of the activation [batch, rows, width] of 16-bit elements, that
/// loads boxes of kRows x 64. A box never runs on into other rows: beyond `count` it is zeros. Throws if the driver has no tensor
/// maps.
inline CUtensorMap activation_map(const void* data, CUtensorMapDataType type, Count batch, Count rows, Count width, Count first,
                                  Count count) {
  static const auto encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (entry == nullptr) throw std::runtime_error("the CUDA driver has no cuTensorMapEncodeTiled, which Hopper attention needs");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  }();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(count), static_cast<cuuint64_t>(batch)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(2 * width), static_cast<cuuint64_t>(2 * width * rows)};
  const cuuint32_t box[] = {64, kRows, 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, type, 3, static_cast<std::uint16_t*>(const_cast<void*>(data)) + first * width, sizes,
                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled refused an activation of the Hopper attention");
  return map;
}

template <class T>
inline constexpr CUtensorMapDataType kTensorMapType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <>
inline constexpr CUtensorMapDataType kTensorMapType<__half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

template <class T>
CUtensorMap query_map(const Layout& layout, const void* q) {
  return activation_map(q, kTensorMapType<T>, layout.batch, layout.query_rows, layout.q_width, layout.first_query,
                        layout.problem.queries);
}
template <class T>
CUtensorMap key_map(const Layout& layout, const void* kv) {
  return activation_map(kv, kTensorMapType<T>, layout.batch, layout.key_rows, layout.kv_width, layout.first_key,
                        layout.problem.keys);
}
template <class T>
CUtensorMap dout_map(const Layout& layout, const void* dout) {
  return activation_map(dout, kTensorMapType<T>, layout.batch, layout.query_rows, layout.problem.out.stride, layout.first_query,
                        layout.problem.queries);
}

static inline int claim_counter() {
  static std::atomic<unsigned> launches{0};
  return static_cast<int>(launches++ % kCounters);
}

inline int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// The problem with an order for one kernel: `heads` is the number of heads over all samples that own tiles of `tile_rows` of the
/// `rows` rows, `section` how many of them a section has.
inline Problem ordered_in_sections(Problem problem, Count heads, int rows, int tile_rows, Count section) {
  problem.order = {static_cast<int>(heads), (rows + tile_rows - 1) / tile_rows,
                   static_cast<int>(std::clamp<Count>(section, 1, heads))};
  problem.counter = claim_counter();
  return problem;
}

/// The same with a section for the L2 cache: `head_bytes` is what the tiles of a head stream.
inline Problem ordered(const Problem& problem, Count heads, int rows, int tile_rows, Bytes head_bytes) {
  constexpr Bytes kSectionBytes = 16 * kMiB;  // well inside the L2 cache (50 MB), beside what else passes through it
  return ordered_in_sections(problem, heads, rows, tile_rows, kSectionBytes / head_bytes);
}

inline int persistent_blocks(const TileOrder& order) { return std::min(multiprocessors(), order.tiles()); }

}  // namespace cohort::ops::cuda::hopper
