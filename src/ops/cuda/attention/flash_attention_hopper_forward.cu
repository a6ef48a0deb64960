// The forward launchers of flash_attention_hopper.hpp.
#include "ops/cuda/attention/flash_attention_hopper.hpp"
#include "ops/cuda/attention/flash_attention_hopper_forward.cuh"
#include "ops/cuda/attention/flash_attention_hopper_layout.cuh"

namespace cohort::ops::cuda {
namespace hopper {
namespace {

template <class T, int HS, bool DOCUMENTS>
__global__ void __launch_bounds__(ForwardPlan<HS>::kThreads, 1)
    flash_forward_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap kv, const Problem problem,
                         void* out, float* lse) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Plan = ForwardPlan<HS>;
  extern __shared__ unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardShared<T, HS>*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int group = 0; group < Plan::kGroups; ++group) {
      barrier_init(&shared.queries_full[group], 1);
      barrier_init(&shared.queries_empty[group], 4);
    }
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      barrier_init(&shared.keys_full[stage], 1);
      barrier_init(&shared.values_full[stage], 1);
      barrier_init(&shared.keys_empty[stage], 4 * Plan::kGroups);  // one arrival per warp
      barrier_init(&shared.values_empty[stage], 4 * Plan::kGroups);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / kWarpgroupThreads, 0);
  if (warpgroup == Plan::kGroups) {
    shrink_registers<Plan::kLoadRegisters>();
    if (threadIdx.x == Plan::kGroups * kWarpgroupThreads) load_forward<T, HS, DOCUMENTS>(shared, &q, &kv, problem);
  } else {
    grow_registers<Plan::kComputeRegisters>();
    compute_forward<T, HS, DOCUMENTS>(shared, problem, out, lse, warpgroup);
  }
#endif
}

template <class T, int HS>
void launch_forward(cudaStream_t stream, const Layout& layout, void* out, float* lse, const void* q, const void* kv) {
  using Plan = ForwardPlan<HS>;
  const Bytes streamed = Bytes{2} * layout.problem.keys * HS * static_cast<Bytes>(sizeof(T));
  const Problem problem =
      ordered(layout.problem, layout.batch * layout.problem.heads, layout.problem.padded_queries(), Plan::kTileRows, streamed);
  constexpr int kSharedBytes = sizeof(ForwardShared<T, HS>) + 1024;  // room to align the start
  const auto kernel = problem.first_keys != nullptr ? flash_forward_hopper<T, HS, true> : flash_forward_hopper<T, HS, false>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  kernel<<<persistent_blocks(problem.order), Plan::kThreads, kSharedBytes, stream>>>(query_map<T>(layout, q),
                                                                                     key_map<T>(layout, kv), problem, out, lse);
}

void forward(cudaStream_t stream, DType dtype, Count head_size, const Layout& layout, void* out, float* lse, const void* q,
             const void* kv) {
  const bool wide = head_size == 128;
  if (dtype == DType::bf16) {
    (wide ? launch_forward<__nv_bfloat16, 128> : launch_forward<__nv_bfloat16, 64>)(stream, layout, out, lse, q, kv);
  } else {
    (wide ? launch_forward<__half, 128> : launch_forward<__half, 64>)(stream, layout, out, lse, q, kv);
  }
}

}  // namespace
}  // namespace hopper

bool flash_attention_hopper_supports(DType dtype, const AttentionShape& shape) {
  return (dtype == DType::bf16 || dtype == DType::f16) && (shape.head_size == 64 || shape.head_size == 128) && shape.batch > 0 &&
         shape.tokens > 0 && shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0;
}

bool flash_partial_attention_hopper_supports(DType dtype, const FlashBlock& block) {
  return flash_attention_hopper_supports(dtype, block.sequence) && (block.full() || block.diagonal());
}

void flash_attention_forward_hopper(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* out, float* lse,
                                    const void* qkv) {
  hopper::forward(stream, dtype, shape.head_size, hopper::layout_of(shape), out, lse, qkv, qkv);
}

void flash_partial_attention_forward_hopper(CUstream_st* stream, DType dtype, const FlashBlock& block, float* out, float* lse,
                                            const void* q, const void* kv) {
  const hopper::Layout layout = hopper::layout_of(block);
  hopper::forward(stream, dtype, block.sequence.head_size, layout, out + layout.first_out(), lse + block.queries.row, q, kv);
}

}  // namespace cohort::ops::cuda
