// The backward launcher of flash_attention_hopper.hpp: the kernel that owns queries, then the kernel that owns keys, which reads
// the row statistics that the first has left in scratch.
#include "ops/cuda/attention/flash_attention_hopper.hpp"
#include "ops/cuda/attention/flash_attention_hopper_joint.hpp"
#include "ops/cuda/attention/flash_attention_hopper_keys.cuh"
#include "ops/cuda/attention/flash_attention_hopper_layout.cuh"
#include "ops/cuda/attention/flash_attention_hopper_queries.cuh"

namespace cohort::ops::cuda {
namespace hopper {
namespace {

template <class T, int HS, bool DOCUMENTS>
__global__ void __launch_bounds__(BackwardPlan<HS>::kThreads, 1)
    flash_backward_queries_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap kv,
                                  const __grid_constant__ CUtensorMap dout, const Problem problem,
                                  const QueryArguments<T> arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  run_roles<T, HS>([&](auto& shared) { load_for_queries<T, HS, DOCUMENTS>(shared, &q, &kv, &dout, problem); },
                   [&](auto& shared, int group) { compute_for_queries<T, HS, DOCUMENTS>(shared, problem, arguments, group); });
#endif
}

template <class T, int HS, bool DOCUMENTS>
__global__ void __launch_bounds__(BackwardPlan<HS>::kThreads, 1)
    flash_backward_keys_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap kv,
                               const __grid_constant__ CUtensorMap dout, const Problem problem, const KeyGradients gradients,
                               const RowStatistics* statistics) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  run_roles<T, HS>([&](auto& shared) { load_for_keys<T, HS, DOCUMENTS>(shared, &q, &kv, &dout, statistics, problem); },
                   [&](auto& shared, int group) { compute_for_keys<T, HS, DOCUMENTS>(shared, problem, gradients, group); });
#endif
}

/// Device pointers: q, kv and dout to the whole activations, the others to the first row that takes part.
struct BackwardArguments {
  void* dq;
  KeyGradients gradients;
  const void* dout;
  const void* out;
  const float* lse;
  const void* q;
  const void* kv;
  void* scratch;
};

template <class T, int HS, bool DOCUMENTS>
void launch_backward(cudaStream_t stream, const Layout& layout, const BackwardArguments& a) {
  using Plan = BackwardPlan<HS>;
  constexpr int kSharedBytes = kBackwardSharedBytes<T, HS>;
  constexpr Bytes kPairBytes = 2 * HS * static_cast<Bytes>(sizeof(T));  // of one row
  const CUtensorMap q = query_map<T>(layout, a.q), kv = key_map<T>(layout, a.kv), dout = dout_map<T>(layout, a.dout);
  const Problem& problem = layout.problem;
  auto* const statistics = static_cast<RowStatistics*>(a.scratch);

  const Problem queries =
      ordered(problem, layout.batch * problem.heads, problem.padded_queries(), Plan::kTileRows, kPairBytes * problem.keys);
  cudaFuncSetAttribute(flash_backward_queries_hopper<T, HS, DOCUMENTS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kSharedBytes);
  flash_backward_queries_hopper<T, HS, DOCUMENTS><<<persistent_blocks(queries.order), Plan::kThreads, kSharedBytes, stream>>>(
      q, kv, dout, queries, {a.dq, static_cast<const T*>(a.out), a.lse, statistics});

  const Problem keys = ordered(problem, layout.batch * problem.kv_heads, problem.padded_keys(), Plan::kTileRows,
                               kPairBytes * problem.queries * problem.group());
  cudaFuncSetAttribute(flash_backward_keys_hopper<T, HS, DOCUMENTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  flash_backward_keys_hopper<T, HS, DOCUMENTS>
      <<<persistent_blocks(keys.order), Plan::kThreads, kSharedBytes, stream>>>(q, kv, dout, keys, a.gradients, statistics);
}

template <class T, int HS>
void launch_variant(cudaStream_t stream, const Layout& layout, const BackwardArguments& a) {
  (layout.problem.first_keys != nullptr ? launch_backward<T, HS, true> : launch_backward<T, HS, false>)(stream, layout, a);
}

void backward(cudaStream_t stream, DType dtype, Count head_size, const Layout& layout, const BackwardArguments& a) {
  const bool wide = head_size == 128;
  if (dtype == DType::bf16) {
    (wide ? launch_variant<__nv_bfloat16, 128> : launch_variant<__nv_bfloat16, 64>)(stream, layout, a);
  } else {
    (wide ? launch_variant<__half, 128> : launch_variant<__half, 64>)(stream, layout, a);
  }
}

// The kernels around the joint one, and its beginnings, are dear for short samples: of 1,024 tokens it took 1.12 times as
// long as two kernels on an H200, of 2,048 tokens 0.88 times.
bool sums_jointly(const AttentionShape& shape) {
  constexpr Count kLongSample = 2048, kMostHeads = 65'535;  // a grid's second side
  return shape.head_size == joint::kHeadSize && shape.tokens >= kLongSample && shape.batch * shape.heads <= kMostHeads;
}

}  // namespace
}  // namespace hopper

Bytes flash_attention_hopper_scratch_bytes(const AttentionShape& shape) {
  return hopper::sums_jointly(shape) ? hopper::joint::scratch_bytes(shape) : flash_partial_attention_hopper_scratch_bytes(shape);
}

Bytes flash_partial_attention_hopper_scratch_bytes(const AttentionShape& shape) {
  const Count blocks = (shape.tokens + hopper::kRows - 1) / hopper::kRows;
  return shape.batch * shape.heads * blocks * static_cast<Bytes>(sizeof(hopper::RowStatistics));
}

void flash_attention_backward_hopper(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const void* dout,
                                     const void* out, const float* lse, const void* qkv, void* scratch) {
  auto* const gradient = static_cast<std::uint16_t*>(dqkv);  // elements of either type
  const hopper::KeyGradients keys{gradient + shape.width(), gradient + shape.width() + shape.kv_heads * shape.head_size};
  if (hopper::sums_jointly(shape))
    return hopper::joint::backward(stream, dtype, shape, {dqkv, keys.dk, keys.dv, dout, out, lse, qkv, scratch});
  hopper::backward(stream, dtype, shape.head_size, hopper::layout_of(shape), {dqkv, keys, dout, out, lse, qkv, qkv, scratch});
}

void flash_partial_attention_backward_hopper(CUstream_st* stream, DType dtype, const FlashBlock& block, float* dq, float* dkv,
                                             const void* dout, const void* out, const float* lse, const void* q, const void* kv,
                                             void* scratch) {
  const hopper::Layout layout = hopper::layout_of(block);
  float* const dk = dkv + block.keys.row * layout.kv_width;
  const hopper::KeyGradients keys{dk, dk + block.sequence.kv_heads * block.sequence.head_size};
  const void* const first_out = static_cast<const std::uint16_t*>(out) + layout.first_out();  // elements of either type
  hopper::backward(stream, dtype, block.sequence.head_size, layout,
                   {dq + layout.first_out(), keys, dout, first_out, lse + block.queries.row, q, kv, scratch});
}

}  // namespace cohort::ops::cuda
