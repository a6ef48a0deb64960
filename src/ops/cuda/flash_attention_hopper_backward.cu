// The backward launcher of flash_attention_hopper.hpp: the kernel that owns queries, then the kernel that owns keys, which reads
// the row statistics that the first has left in scratch.
#include "ops/cuda/flash_attention_hopper.hpp"
#include "ops/cuda/flash_attention_hopper_keys.cuh"
#include "ops/cuda/flash_attention_hopper_queries.cuh"

namespace cohort::ops::cuda {
namespace hopper {
namespace {

template <class T, int HS>
__global__ void __launch_bounds__(BackwardPlan<HS>::kThreads, 1)
    flash_backward_queries_hopper(const __grid_constant__ CUtensorMap qkv, const __grid_constant__ CUtensorMap dout,
                                  const Problem problem, const QueryArguments<T> arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  run_roles<T, HS>([&](auto& shared) { load_for_queries<T, HS>(shared, &qkv, &dout, problem); },
                   [&](auto& shared, int group) { compute_for_queries<T, HS>(shared, problem, arguments, group); });
#endif
}

template <class T, int HS>
__global__ void __launch_bounds__(BackwardPlan<HS>::kThreads, 1)
    flash_backward_keys_hopper(const __grid_constant__ CUtensorMap qkv, const __grid_constant__ CUtensorMap dout,
                               const Problem problem, T* dqkv, const RowStatistics* statistics) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  run_roles<T, HS>([&](auto& shared) { load_for_keys<T, HS>(shared, &qkv, &dout, statistics, problem); },
                   [&](auto& shared, int group) { compute_for_keys<T, HS>(shared, problem, dqkv, group); });
#endif
}

template <class T, int HS>
void launch_backward(cudaStream_t stream, const AttentionShape& shape, void* dqkv, const void* dout, const void* out,
                     const float* lse, const void* qkv, void* scratch) {
  using Plan = BackwardPlan<HS>;
  constexpr int kSharedBytes = kBackwardSharedBytes<T, HS>;
  const CUtensorMap qkv_map = activation_map(qkv, kTensorMapType<T>, shape.batch, shape.tokens, shape.packed_width());
  const CUtensorMap dout_map = activation_map(dout, kTensorMapType<T>, shape.batch, shape.tokens, shape.width());
  const Bytes pair_bytes = 2 * shape.tokens * HS * static_cast<Bytes>(sizeof(T));
  auto* const statistics = static_cast<RowStatistics*>(scratch);

  const Problem queries = make_problem(shape, shape.batch * shape.heads, Plan::kTileRows, pair_bytes);
  cudaFuncSetAttribute(flash_backward_queries_hopper<T, HS>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  flash_backward_queries_hopper<T, HS><<<persistent_blocks(queries.order), Plan::kThreads, kSharedBytes, stream>>>(
      qkv_map, dout_map, queries, {static_cast<T*>(dqkv), static_cast<const T*>(out), lse, statistics});

  const Problem keys = make_problem(shape, shape.batch * shape.kv_heads, Plan::kTileRows, pair_bytes * queries.group());
  cudaFuncSetAttribute(flash_backward_keys_hopper<T, HS>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  flash_backward_keys_hopper<T, HS><<<persistent_blocks(keys.order), Plan::kThreads, kSharedBytes, stream>>>(
      qkv_map, dout_map, keys, static_cast<T*>(dqkv), statistics);
}

}  // namespace
}  // namespace hopper

Bytes flash_attention_hopper_scratch_bytes(const AttentionShape& shape) {
  const Count blocks = (shape.tokens + hopper::kRows - 1) / hopper::kRows;
  return shape.batch * shape.heads * blocks * static_cast<Bytes>(sizeof(hopper::RowStatistics));
}

void flash_attention_backward_hopper(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const void* dout,
                                     const void* out, const float* lse, const void* qkv, void* scratch) {
  const bool wide = shape.head_size == 128;
  if (dtype == DType::bf16) {
    (wide ? hopper::launch_backward<__nv_bfloat16, 128> : hopper::launch_backward<__nv_bfloat16, 64>)(stream, shape, dqkv, dout,
                                                                                                      out, lse, qkv, scratch);
  } else {
    (wide ? hopper::launch_backward<__half, 128> : hopper::launch_backward<__half, 64>)(stream, shape, dqkv, dout, out, lse, qkv,
                                                                                        scratch);
  }
}

}  // namespace cohort::ops::cuda
