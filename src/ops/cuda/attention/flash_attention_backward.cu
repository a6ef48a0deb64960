// Backward pass of the portable flash attention for bf16 and fp16. With p the softmax weights, dp = dout v^T and delta_i = sum_d
// dout_id out_id (FlashAttention-2, Dao 2023, section 3.1.2):
//   ds = p (dp - delta)     dq = ds k / sqrt(HS)     dk = ds^T q / sqrt(HS)     dv = p^T dout
//
// Two kernels, of which each sums its own results in registers in one fixed order: one for dq, which walks over keys, one for dk
// and dv, which walks over the queries of all heads of the group. Both compute p and dp anew: seven products of tiles instead of
// the five of the single kernel of the paper. That kernel has to add up dq in global memory, by atomics (a different sum at every
// run) or by turns (blocks wait for each other, and all of dq passes through fp32 memory once for every tile of keys), and hands
// p and ds from warp to warp through shared memory. Here the left operands of the last products, ds for dq, p^T and ds^T for dv
// and dk, lie just where the products before left them: in the registers of the warp.
#include "ops/cuda/attention/flash_attention_common.cuh"
#include "ops/cuda/attention/flash_attention_documents.cuh"
#include "ops/cuda/attention/flash_attention_store.cuh"
#include "ops/cuda/attention/flash_attention_tiles.cuh"

namespace cohort::ops::cuda::flash {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;

/// Tile sizes; the sums of a warp fill most of its 255 registers, and two blocks share the 164 KiB of an A100's multiprocessor.
template <int D>
struct QueryKernel {  // dq
  static constexpr int kQueries = 32 * kWarps;
  static constexpr int kKeys = D <= 64 ? 64 : 32;
  static constexpr int kSharedBytes = Tile<D>::bytes(2 * kQueries + 2 * kKeys);
};
template <int D>
struct KeyKernel {                                // dk, dv
  static constexpr int kTiles = D <= 64 ? 2 : 1;  // of 16 keys, for each warp
  static constexpr int kKeys = 16 * kTiles * kWarps;
  static constexpr int kQueries = 32;
  // Keys and values, two buffers of queries and of dout, two of the queries' lse and delta.
  static constexpr int kSharedBytes = Tile<D>::bytes(2 * kKeys + 4 * kQueries) + 4 * kQueries * static_cast<int>(sizeof(float));
};

/// delta of the 32 rows from `begin` on, by one warp; D / 8 lanes share a row. Written to memory for both kernels.
template <int D, class Element>
__device__ void row_products(float* delta, const Element* dout, const Element* out, int stride, int begin, int end,
                             int head_size) {
  constexpr int kLanes = D / 8;
  const int piece = lane_id() % kLanes;
#pragma unroll 4
  for (int row = 0; row < 32; row += kWarpSize / kLanes) {
    const int r = begin + row + lane_id() / kLanes;
    float sum = 0.0f;
    if (r < end && piece * 8 < head_size) {
      const uint4 x = *reinterpret_cast<const uint4*>(dout + static_cast<std::uint32_t>(r * stride + piece * 8));
      const uint4 y = *reinterpret_cast<const uint4*>(out + static_cast<std::uint32_t>(r * stride + piece * 8));
      const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w};
      const std::uint32_t ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 a = unpack<Element>(xs[i]);
        const float2 b = unpack<Element>(ys[i]);
        sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
      }
    }
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (piece == 0 && r < end) delta[r] = sum;
  }
  __syncwarp();  // the warp reads them back
}

/// ds = p (dp - delta) for a warp's 32 queries. On entry p holds the scores and ds holds dp.
template <int N, bool kDropout>
__device__ void query_gradients(float (&ds)[2][N][4], const float (&p)[2][N][4], const float (&row_lse)[2][2],
                                const float (&row_delta)[2][2], float scale_log2, const DropoutMask& mask, float keep_scale,
                                int query, int key) {
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    std::uint32_t keep = 0;
    if constexpr (kDropout) keep = keep_bits<N, false>(mask, query + 16 * m, key);
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float weight = power_of_two(fmaf(p[m][n][i], scale_log2, -row_lse[m][i / 2]));
        float dp = ds[m][n][i];
        if constexpr (kDropout) dp = (keep >> (4 * n + i)) & 1u ? dp * keep_scale : 0.0f;
        ds[m][n][i] = weight * (dp - row_delta[m][i / 2]);
      }
    }
  }
}

template <class Element, int D, bool kDropout, bool kDocuments>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_backward_query_kernel(void* dq_rows, float* delta, const Element* dout, const Element* out, const float* lse,
                                          Operands<Element> operands, Sizes s, FlashDropout dropout, Documents documents) {
  using Kernel = QueryKernel<D>;
  constexpr int kKeys = Kernel::kKeys;
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t dout_tile = q_tile + Tile<D>::bytes(Kernel::kQueries);
  const std::uint32_t k_tile = dout_tile + Tile<D>::bytes(Kernel::kQueries);
  const std::uint32_t v_tile = k_tile + Tile<D>::bytes(kKeys);

  const int blocks = divide_up(s.queries, Kernel::kQueries);
  const WorkItem item(blocks, s.heads);
  const int block_query = (blocks - 1 - item.block) * Kernel::kQueries;  // the heaviest first
  const int warp_row = warp_id() * 32;
  const int query = block_query + warp_row;
  const int kv = item.head / s.group();
  const Count out_offset = s.head_of(s.out, item.b, item.head);
  const Element* q = operands.q + s.head_of(s.q, item.b, item.head);
  const Element* k = operands.k + s.head_of(s.kv, item.b, kv);
  const Element* v = operands.v + s.head_of(s.kv, item.b, kv);
  const float scale_log2 = s.scale * kLog2e;
  const DropoutMask mask(dropout, s, item.b, item.head);

  const int tiles = divide_up(s.visible_keys(min(block_query + Kernel::kQueries, s.queries) - 1), kKeys);
  const int first_tile = kDocuments ? documents.hidden_keys(s, item.b, block_query) / kKeys : 0;
  const OwnDocuments<kDocuments> own(documents, s, item.b, query);
  load_tile<D, Kernel::kQueries, kThreads>(q_tile, q, s.q.stride, block_query, s.queries, s.head_size);
  load_tile<D, Kernel::kQueries, kThreads>(dout_tile, dout + out_offset, s.out.stride, block_query, s.queries, s.head_size);
  if (tiles > first_tile) load_tile<D, kKeys, kThreads>(v_tile, v, s.kv.stride, (tiles - 1) * kKeys, s.keys, s.head_size);

  const float* head_lse = lse + s.lse_offset(item.b, item.head);
  float* head_delta = delta + s.delta_offset(item.b, item.head);
  row_products<D>(head_delta, dout + out_offset, out + out_offset, s.out.stride, query, s.queries, s.head_size);
  float row_lse[2][2];  // in powers of two
  float row_delta[2][2];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = query + 16 * m + 8 * r + lane_id() / 4;
      // Rows past the end have q = dout = 0: with delta = 0 their ds is 0.
      row_lse[m][r] = row < s.queries ? head_lse[row] * kLog2e : 0.0f;
      row_delta[m][r] = row < s.queries ? head_delta[row] : 0.0f;
    }
  }

  float dq[2][D / 8][4];
  clear(dq);
  for (int j = tiles - 1; j >= first_tile; --j) {
    const int key = j * kKeys;
    // A warp skips tiles above the diagonal, and those before its documents.
    const bool visible = key < query + 32 + s.shift() && own.reach(key + kKeys);
    float ds[2][kKeys / 8][4];  // dp at first
    wait_copies();
    __syncthreads();  // the values are there, and all warps are done with the previous keys
    load_tile<D, kKeys, kThreads>(k_tile, k, s.kv.stride, key, s.keys, s.head_size);
    if (visible) multiply_rows<Element, D>(ds, dout_tile, warp_row, v_tile);
    wait_copies();
    __syncthreads();  // the keys are there, and all warps are done with the values
    if (j > first_tile) load_tile<D, kKeys, kThreads>(v_tile, v, s.kv.stride, key - kKeys, s.keys, s.head_size);
    if (visible) {
      float p[2][kKeys / 8][4];
      multiply_rows<Element, D>(p, q_tile, warp_row, k_tile);
      if (key + kKeys - 1 > query + s.shift()) hide_future<false>(p, query + s.shift(), key);
      if (key + kKeys > s.keys) hide_columns(p, key, s.keys);
      own.hide_earlier_keys(p, key);
      query_gradients<kKeys / 8, kDropout>(ds, p, row_lse, row_delta, scale_log2, mask, dropout.keep_scale, query, key);
      std::uint32_t left[2][kKeys / 16][4];
      pack_weights<Element>(left, ds);
      multiply_weights<Element, D>(dq, left, k_tile);
    }
  }
  wait_copies();  // where no tile was visible: no thread may end while its copies are under way
  const float scale[2][2] = {{s.scale, s.scale}, {s.scale, s.scale}};
  const Count dq_offset = s.head_of(s.dq, item.b, item.head);
  store_gradient<Element, D>(dq_rows, dq_offset, s, s.dq.stride, query, s.queries, q_tile, warp_row, dq, scale);
}

/// p^T = 2^(k q^T - lse) and ds^T = p^T (dp^T - delta) for a warp's 16 M keys: rows are keys and columns queries. On entry p
/// holds the scores and ds holds dp; dropout acts on p on the way out. `lse` and `delta` are those of this lane's first column.
template <int M, int N, bool kDropout>
__device__ void key_gradients(float (&p)[M][N][4], float (&ds)[M][N][4], const float* lse, const float* delta, float scale_log2,
                              const std::uint32_t (&keep)[M], float keep_scale) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float2 lse_pair = *reinterpret_cast<const float2*>(lse + 8 * n);
    const float2 delta_pair = *reinterpret_cast<const float2*>(delta + 8 * n);
    const float column_lse[2] = {lse_pair.x * kLog2e, lse_pair.y * kLog2e};
    const float column_delta[2] = {delta_pair.x, delta_pair.y};
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float weight = power_of_two(fmaf(p[m][n][i], scale_log2, -column_lse[i % 2]));
        float dp = ds[m][n][i];
        p[m][n][i] = weight;
        if constexpr (kDropout) {
          const bool kept = (keep[m] >> (4 * n + i)) & 1u;
          dp = kept ? dp * keep_scale : 0.0f;
          p[m][n][i] = kept ? weight : 0.0f;
        }
        ds[m][n][i] = weight * (dp - column_delta[i % 2]);
      }
    }
  }
}

template <class Element, int D, bool kDropout, bool kDocuments>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_backward_key_kernel(void* dk_rows, void* dv_rows, const float* delta, const Element* dout, const float* lse,
                                        Operands<Element> operands, Sizes s, FlashDropout dropout, Documents documents) {
  using Kernel = KeyKernel<D>;
  constexpr int M = Kernel::kTiles;
  constexpr int kQueries = Kernel::kQueries;
  constexpr int kQueryBytes = Tile<D>::bytes(kQueries);
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t k_tile = shared_address(shared);
  const std::uint32_t v_tile = k_tile + Tile<D>::bytes(Kernel::kKeys);
  const std::uint32_t q_tiles = v_tile + Tile<D>::bytes(Kernel::kKeys);  // two, then two of dout, then two of lse and delta
  const std::uint32_t dout_tiles = q_tiles + 2 * kQueryBytes;
  float* const statistics = reinterpret_cast<float*>(shared + Tile<D>::bytes(2 * Kernel::kKeys + 4 * kQueries));

  const WorkItem item(divide_up(s.keys, Kernel::kKeys), s.kv_heads);
  const int block_key = item.block * Kernel::kKeys;  // the first keys are seen by the most queries: the heaviest block
  const int warp_row = warp_id() * 16 * M;
  const int key = block_key + warp_row;                   // the first of this warp
  const int first_query = max(0, block_key - s.shift());  // that sees a key of this block
  const int end_query = kDocuments ? documents.end_of_queries(s, item.b, min(block_key + Kernel::kKeys, s.keys)) : s.queries;
  const Count kv_offset = s.head_of(s.kv, item.b, item.head);
  const float scale_log2 = s.scale * kLog2e;

  const auto load_step = [&](int h, int query, int buffer) {
    load_tile<D, kQueries, kThreads>(q_tiles + buffer * kQueryBytes, operands.q + s.head_of(s.q, item.b, h), s.q.stride, query,
                                     s.queries, s.head_size);
    load_tile<D, kQueries, kThreads>(dout_tiles + buffer * kQueryBytes, dout + s.head_of(s.out, item.b, h), s.out.stride, query,
                                     s.queries, s.head_size);
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < 2 * kQueries) {  // zeros past the end, where q = dout = 0: ds is 0 there, and p meets dout = 0
      const int row = query + thread % kQueries;
      const float* source = thread < kQueries ? lse + s.lse_offset(item.b, h) : delta + s.delta_offset(item.b, h);
      const bool valid = row < s.queries;
      copy4(shared_address(statistics + buffer * 2 * kQueries + thread), valid ? source + row : source, valid);
    }
  };

  float dk[M][D / 8][4];
  float dv[M][D / 8][4];
  clear(dk);
  clear(dv);
  load_tile<D, Kernel::kKeys, kThreads>(k_tile, operands.k + kv_offset, s.kv.stride, block_key, s.keys, s.head_size);
  load_tile<D, Kernel::kKeys, kThreads>(v_tile, operands.v + kv_offset, s.kv.stride, block_key, s.keys, s.head_size);
  // One head of the group after the other, and the queries of each from the diagonal to the last that sees these keys; one step
  // of zeros if no query sees these keys.
  int h = item.head * s.group();
  const int end_head = h + s.group();
  load_step(h, first_query, 0);
  for (int query = first_query, buffer = 0; h < end_head; buffer ^= 1) {
    const bool head_ends = query + kQueries >= end_query;
    const int next_h = head_ends ? h + 1 : h;
    const int next_query = head_ends ? first_query : query + kQueries;
    wait_copies();
    __syncthreads();  // this step's queries are there, and all warps are done with those of the step before
    if (next_h < end_head) load_step(next_h, next_query, buffer ^ 1);
    // A warp skips queries before its first key, and those of documents behind its last.
    const bool visible =
        query + kQueries + s.shift() > key && (!kDocuments || documents.hidden_keys(s, item.b, query) < key + 16 * M);
    if (visible) {
      const std::uint32_t q_tile = q_tiles + buffer * kQueryBytes;
      const std::uint32_t dout_tile = dout_tiles + buffer * kQueryBytes;
      const float* const column_lse = statistics + buffer * 2 * kQueries + 2 * (lane_id() % 4);
      float p[M][kQueries / 8][4];
      float ds[M][kQueries / 8][4];
      multiply_rows<Element, D>(p, k_tile, warp_row, q_tile);
      multiply_rows<Element, D>(ds, v_tile, warp_row, dout_tile);
      if (query + s.shift() < key + 16 * M - 1) hide_future<true>(p, key, query + s.shift());
      if (kDocuments && documents.hidden_keys(s, item.b, min(query + kQueries, s.queries) - 1) > key)
        hide_earlier_rows(p, key, [&](int column) { return documents.hidden_keys(s, item.b, query + column); });
      std::uint32_t keep[M] = {};
      if constexpr (kDropout) {
        const DropoutMask mask(dropout, s, item.b, h);
#pragma unroll
        for (int m = 0; m < M; ++m) keep[m] = keep_bits<kQueries / 8, true>(mask, key + 16 * m, query);
      }
      key_gradients<M, kQueries / 8, kDropout>(p, ds, column_lse, column_lse + kQueries, scale_log2, keep, dropout.keep_scale);
      std::uint32_t left[M][kQueries / 16][4];
      pack_weights<Element>(left, p);
      multiply_weights<Element, D>(dv, left, dout_tile);
      pack_weights<Element>(left, ds);
      multiply_weights<Element, D>(dk, left, q_tile);
    }
    h = next_h;
    query = next_query;
  }

  float k_scale[M][2];
  float v_scale[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    k_scale[m][0] = k_scale[m][1] = s.scale;
    v_scale[m][0] = v_scale[m][1] = kDropout ? dropout.keep_scale : 1.0f;
  }
  const Count offset = s.head_of(s.dkv, item.b, item.head);
  store_gradient<Element, D>(dk_rows, offset, s, s.dkv.stride, key, s.keys, k_tile, warp_row, dk, k_scale);
  store_gradient<Element, D>(dv_rows, offset, s, s.dkv.stride, key, s.keys, v_tile, warp_row, dv, v_scale);
}

}  // namespace

void backward_narrow(CUstream_st* stream, DType dtype, const Sizes& s, void* dq, void* dk, void* dv, const void* dout,
                     const void* out, const float* lse, const Operands<void>& operands, float* delta, const FlashDropout& dropout,
                     const Documents& documents) {
  with_kernel_types(dtype, s.head_size, [&](auto element, auto tile_width) {
    using Element = decltype(element);
    constexpr int D = decltype(tile_width)::value;
    with_variant(dropout, documents, [&](auto drops, auto packed) {
      constexpr bool kDropout = decltype(drops)::value, kDocuments = decltype(packed)::value;
      // In this order: the first writes delta, which the second reads.
      launch(flash_attention_backward_query_kernel<Element, D, kDropout, kDocuments>, stream,
             Count{s.batch} * s.heads * divide_up(s.queries, QueryKernel<D>::kQueries), kThreads, QueryKernel<D>::kSharedBytes,
             dq, delta, static_cast<const Element*>(dout), static_cast<const Element*>(out), lse, typed<Element>(operands), s,
             dropout, documents);
      launch(flash_attention_backward_key_kernel<Element, D, kDropout, kDocuments>, stream,
             Count{s.batch} * s.kv_heads * divide_up(s.keys, KeyKernel<D>::kKeys), kThreads, KeyKernel<D>::kSharedBytes, dk, dv,
             static_cast<const float*>(delta), static_cast<const Element*>(dout), lse, typed<Element>(operands), s, dropout,
             documents);
    });
  });
}

}  // namespace cohort::ops::cuda::flash
