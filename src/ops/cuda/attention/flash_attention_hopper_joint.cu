// The launcher of the backward kernel of flash_attention_hopper_joint.cuh, and the two small kernels around it: row statistics
// before it, and dq in 16 bits after it.
#include "ops/cuda/attention/flash_attention_hopper_joint.hpp"
#include "ops/cuda/attention/flash_attention_hopper_joint_keys.cuh"
#include "ops/cuda/attention/flash_attention_hopper_layout.cuh"

namespace cohort::ops::cuda::hopper::joint {
namespace {

// How many tiles of a head are under way, in long samples. Each begins a step behind the one before it, so that with many of them
// blocks wait long; with few, few share the queries that the L2 cache has. 2, 4 and 8 were measured on an H200.
constexpr int kLevelsAtOnce = 4;
constexpr int kLanesOfRow = kHeadSize * 2 / 16;  // each has 16 bytes of it

/// One block for 128 rows of a head: d = the row sum of dout * out, lse in units of log2; nobody has had a turn yet.
template <class T>
__global__ void __launch_bounds__(kTile* kLanesOfRow / 4)
    flash_backward_prepare_hopper(const T* dout, const T* out, const float* lse, const Problem problem, const Scratch scratch) {
  const int step = blockIdx.x, head = blockIdx.y % problem.heads, sample = blockIdx.y / problem.heads;
  const Count place = static_cast<Count>(blockIdx.y) * gridDim.x + step;
  const int piece = threadIdx.x % kLanesOfRow;
  if (threadIdx.x < 2) scratch.turns[2 * place + threadIdx.x] = 0;
  for (int own = threadIdx.x / kLanesOfRow; own < kTile; own += blockDim.x / kLanesOfRow) {
    const int row = step * kTile + own;
    const bool inside = row < problem.queries;
    float sum = 0.0f;
    if (inside) {
      const Count at = problem.out.head_of(sample, head, kHeadSize) + row * problem.out.stride + piece * 8;
      const uint4 a = *reinterpret_cast<const uint4*>(dout + at), b = *reinterpret_cast<const uint4*>(out + at);
      sum = dot_pair(T{}, a.x, b.x) + dot_pair(T{}, a.y, b.y) + dot_pair(T{}, a.z, b.z) + dot_pair(T{}, a.w, b.w);
    }
    for (int lanes = 1; lanes < kLanesOfRow; lanes *= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
    if (piece > 0) continue;
    Statistics& statistics = scratch.statistics[2 * place + own / kRows];
    statistics.lse_log2[own % kRows] = inside ? lse[static_cast<Count>(blockIdx.y) * problem.lse_rows + row] * kLog2E : INFINITY;
    statistics.dot[own % kRows] = sum;
    statistics.first_key[own % kRows] = problem.first_keys != nullptr ? problem.hidden_keys(sample, row) : 0;
  }
}

/// One warpgroup for 64 rows of a head.
template <class T>
__global__ void __launch_bounds__(kWarpgroupThreads)
    flash_backward_finish_hopper(void* dq, const Problem problem, const Scratch scratch) {
  const int head = blockIdx.y % problem.heads, sample = blockIdx.y / problem.heads;
  const Count place = static_cast<Count>(blockIdx.y) * gridDim.x + blockIdx.x;
  const auto* const from = reinterpret_cast<const float4*>(scratch.sums + place * kRowsElements) + threadIdx.x;
  float d[kHeadSize / 2];
#pragma unroll
  for (int i = 0; i < kHeadSize / 8; ++i) {
    const float4 x = from[i * kWarpgroupThreads];
    d[4 * i] = x.x;
    d[4 * i + 1] = x.y;
    d[4 * i + 2] = x.z;
    d[4 * i + 3] = x.w;
  }
  const float factor[2] = {problem.scale, problem.scale};
  store_rows<T, kHeadSize>(d, factor, static_cast<T*>(dq) + problem.dq.head_of(sample, head, kHeadSize), problem.dq.stride,
                           static_cast<int>(blockIdx.x) * kRows, problem.queries);
}

template <class T, bool DOCUMENTS>
__global__ void __launch_bounds__(kThreads, 1)
    flash_backward_joint_hopper(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap kv,
                                const __grid_constant__ CUtensorMap dout, const Problem problem, const Gradients gradients,
                                const Scratch scratch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<T>*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / kWarpgroupThreads, 0);
  if (warpgroup == kGroups) {
    shrink_registers<kLoadRegisters>();
    const int thread = threadIdx.x % kWarpgroupThreads;
    if (thread == 0) load<T, DOCUMENTS>(shared, &q, &kv, &dout, scratch.statistics, problem);
    if (thread % 32 == 0 && (thread == 32 || thread == 64)) add_sums<T, DOCUMENTS>(shared, problem, scratch, thread / 32 - 1);
  } else {
    grow_registers<kComputeRegisters>();
    compute<T, DOCUMENTS>(shared, problem, gradients, warpgroup);
  }
#endif
}

Bytes round_up(Bytes bytes) { return (bytes + 127) / 128 * 128; }

Count places(Count batch, Count heads, Count tokens) { return 2 * batch * heads * ((tokens + kTile - 1) / kTile); }

Scratch scratch_of(void* memory, Count places) {
  auto* const bytes = static_cast<unsigned char*>(memory);
  const Bytes turns = round_up(places * static_cast<Bytes>(sizeof(Statistics)));
  const Bytes sums = turns + round_up(places * static_cast<Bytes>(sizeof(unsigned)));
  return {reinterpret_cast<Statistics*>(bytes), reinterpret_cast<unsigned*>(bytes + turns),
          reinterpret_cast<float*>(bytes + sums)};
}

template <class T, bool DOCUMENTS>
void launch(cudaStream_t stream, const Layout& layout, const JointBackward& a) {
  const Problem& problem = layout.problem;
  const Count heads = layout.batch * problem.heads, of_scratch = places(layout.batch, problem.heads, problem.queries);
  const Scratch scratch = scratch_of(a.scratch, of_scratch);
  const dim3 steps(static_cast<unsigned>(of_scratch / 2 / heads), static_cast<unsigned>(heads));
  flash_backward_prepare_hopper<T><<<steps, kTile * kLanesOfRow / 4, 0, stream>>>(
      static_cast<const T*>(a.dout), static_cast<const T*>(a.out), a.lse, problem, scratch);

  const Problem keys =
      ordered_in_sections(problem, layout.batch * problem.kv_heads, problem.keys, kTile, multiprocessors() / kLevelsAtOnce);
  const CUtensorMap q = query_map<T>(layout, a.qkv), kv = key_map<T>(layout, a.qkv), dout = dout_map<T>(layout, a.dout);
  cudaFuncSetAttribute(flash_backward_joint_hopper<T, DOCUMENTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes<T>);
  flash_backward_joint_hopper<T, DOCUMENTS>
      <<<persistent_blocks(keys.order), kThreads, kSharedBytes<T>, stream>>>(q, kv, dout, keys, {a.dk, a.dv}, scratch);

  flash_backward_finish_hopper<T><<<dim3(2 * steps.x, steps.y), kWarpgroupThreads, 0, stream>>>(a.dq, problem, scratch);
}

template <class T>
void launch_variant(cudaStream_t stream, const Layout& layout, const JointBackward& a) {
  (layout.problem.first_keys != nullptr ? launch<T, true> : launch<T, false>)(stream, layout, a);
}

}  // namespace

Bytes scratch_bytes(const AttentionShape& shape) {
  const Count all = places(shape.batch, shape.heads, shape.tokens);
  return round_up(all * static_cast<Bytes>(sizeof(Statistics))) + round_up(all * static_cast<Bytes>(sizeof(unsigned))) +
         all * kRowsElements * static_cast<Bytes>(sizeof(float));
}

void backward(cudaStream_t stream, DType dtype, const AttentionShape& shape, const JointBackward& a) {
  (dtype == DType::bf16 ? launch_variant<__nv_bfloat16> : launch_variant<__half>)(stream, layout_of(shape), a);
}

}  // namespace cohort::ops::cuda::hopper::joint
