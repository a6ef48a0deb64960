// Thin wrappers over the instructions that only Hopper (sm_90a) has: matrix products of a warpgroup (wgmma), tile copies by the
// tensor memory accelerator (TMA) and the barriers in shared memory that the copies complete on (mbarrier). Source: PTX ISA 8.5,
// sections 9.7.13 (mbarrier), 9.7.9.25 (cp.async.bulk) and 9.7.15 (wgmma). A warpgroup is 4 consecutive warps, 128 threads.
//
// Tiles in shared memory. Every tile here is a stack of rows of 64 16-bit elements (128 bytes) in the 128-byte swizzle: the
// 16-byte piece c of row r lies in place c ^ (r mod 8) of that row, which is how TMA writes it and wgmma reads it, free of bank
// conflicts. Tiles start at multiples of 1024 bytes (8 rows), because the hardware takes r mod 8 from the address. A tile with
// more than 64 columns is stored as column chunks of 64, one whole stack of rows after the other.
//
// Fragments in registers. Of a 64 x N fp32 result, thread t of the warpgroup (w = t / 32, l = t mod 32) holds as its element e
//   row 16 w + l / 4 + 8 ((e / 2) mod 2),  column 8 (e / 4) + 2 (l mod 4) + (e mod 2),     e < N / 2.
// A 64 x K left operand in 16 bits has the same map with two elements in each register, so a result becomes an operand by packing
// its elements 2 i and 2 i + 1 into register i.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace cohort::ops::cuda::hopper {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kTileRowBytes = 128;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Barriers. A phase ends when the expected arrivals have come and the expected bytes have landed; phases are numbered 0, 1,
// 2 ... and a wait names the parity of the phase that it waits for. A wait for parity 1 on a fresh barrier returns at once.

using Barrier = std::uint64_t;

__device__ inline void barrier_init(Barrier* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/// Makes initialised barriers visible to the copy engine; the block's __syncthreads must follow.
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Arrives, and makes the phase wait for `bytes` more bytes of copies.
__device__ inline void barrier_arrive_expecting(Barrier* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ inline bool barrier_phase_ended(Barrier* barrier, std::uint32_t parity) {
  std::uint32_t ended;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(ended)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return ended != 0;
}

/// With COHORT_HOPPER_BOUNDED_WAITS (test builds) a wait of some seconds ends the kernel with an error instead of hanging.
__device__ inline void barrier_wait(Barrier* barrier, std::uint32_t parity) {
#ifdef COHORT_HOPPER_BOUNDED_WAITS
  const long long start = clock64();
  while (!barrier_phase_ended(barrier, parity)) {
    if (clock64() - start > 4'000'000'000LL) __trap();
  }
#else
  while (!barrier_phase_ended(barrier, parity)) {
  }
#endif
}

/// For one arrival per warp: after all its lanes are done with what the barrier guards. Without the __syncwarp a slow lane, still
/// waiting for the phase that filled the buffer, could find that the barrier has gone on by two phases.
/// compute-sanitizer's racecheck (CUDA 13.0) does not follow the chain from a lane over __syncwarp to the arrival of lane 0, and
/// reports what the other lanes read before it; it says the same of cuBLAS's own kernels.
__device__ inline void barrier_arrive_warp(Barrier* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

/// The same, not before `positive` (which is > 0, infinite or NaN) is known: the address gets 0 added, which the assembler cannot
/// foresee. Without such a dependence it sinks arithmetic below a later wait for products, and the two no longer overlap.
__device__ inline void barrier_arrive_warp_after(Barrier* barrier, float positive) {
  constexpr std::uint32_t kMinusZero = 0x80000000;
  barrier_arrive_warp(barrier + (__float_as_uint(positive) == kMinusZero ? 1 : 0));
}

// ---- Copies from global to shared memory, issued by one thread, completing on a barrier.

/// One box of the tensor map, whose corner is (column, row, batch). What lies outside the tensor arrives as zeros and counts as
/// bytes all the same.
__device__ inline void load_box(void* destination, const CUtensorMap* map, Barrier* barrier, int column, int row, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
          shared_address(destination)),
      "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(batch)
      : "memory");
}

/// Contiguous bytes: addresses and size are multiples of 16.
__device__ inline void load_bytes(void* destination, const void* source, std::uint32_t bytes, Barrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(destination)),
               "l"(source), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

// ---- Copies from shared to global memory, issued by one thread, in groups. Addresses and sizes are multiples of 16.

/// What this thread has written to shared memory, or found there behind a barrier, is seen by copies and products that follow.
__device__ inline void shared_writes_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// The same of all memory.
__device__ inline void writes_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }

__device__ inline void store_bytes(void* destination, const void* source, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination), "r"(shared_address(source)),
               "r"(bytes)
               : "memory");
}
/// Adds fp32 numbers to what is there.
__device__ inline void add_floats(float* destination, const float* source, std::uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(destination),
               "r"(shared_address(source)), "r"(bytes)
               : "memory");
}
__device__ inline void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until shared memory has been read by all groups.
__device__ inline void stores_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/// Until all groups have written.
__device__ inline void stores_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Four 8 x 8 matrices of 16-bit elements from the fragments of a warp; lane l gives where row l % 8 of matrix l / 8 goes.
__device__ inline void store_matrices(void* row, const std::uint32_t* x) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(x[0]),
               "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// ---- Registers. A block is launched with the same number for all its threads; warpgroups then give some up or take them.

template <int REGISTERS>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- Matrix products. wgmma_fence() comes before products whose registers ordinary instructions have touched, commit closes a
// group, and wait<P>(registers...) returns when at most the P newest groups are still running; it names the registers that are
// then ready, so that the compiler moves none of their uses before the wait.

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int N>
__device__ inline void pin_registers(float (&registers)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int PENDING, class... Fragments>
__device__ inline void wgmma_wait(Fragments&... fragments) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
  (pin_registers(fragments), ...);
}

/// The shared-memory operand of wgmma: bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride / 16, 62-63 swizzle (1 =
/// 128 bytes). The stride is from one group of 8 rows to the next, 1024 bytes. The leading offset is from one chunk of 64 columns
/// to the next; it is read only when the columns are the operand's M or N dimension ("MN-major"), for along K the address is
/// moved on.
__device__ inline std::uint64_t tile_descriptor(const void* tile, std::uint32_t chunk_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
  constexpr std::uint64_t kStride = static_cast<std::uint64_t>(8 * kTileRowBytes / 16) << 32;
  return kSwizzle128 | kStride | (static_cast<std::uint64_t>(chunk_bytes / 16) << 16) | ((shared_address(tile) & 0x3FFFF) / 16);
}

/// d [64 x N] += a [64 x 16] b [16 x N]:
///   from_shared     a and b are descriptors, b is stored as N rows (K-major);
///   from_columns    likewise, but a is stored as 16 rows of 64 (M-major) and b as 16 rows of N (N-major);
///   from_registers  a is in registers, b is stored as 16 rows of N (N-major).
/// The first of several products overwrites d, and needs no registers for it before.
template <class T, int N>
struct Wgmma;

#define COHORT_FLOATS_8(access, i)                                                                                          \
  access(d[i]), access(d[i + 1]), access(d[i + 2]), access(d[i + 3]), access(d[i + 4]), access(d[i + 5]), access(d[i + 6]), \
      access(d[i + 7])
#define COHORT_FLOATS_32(access, i) \
  COHORT_FLOATS_8(access, i), COHORT_FLOATS_8(access, i + 8), COHORT_FLOATS_8(access, i + 16), COHORT_FLOATS_8(access, i + 24)
#define COHORT_FLOATS_64(access) COHORT_FLOATS_32(access, 0), COHORT_FLOATS_32(access, 32)
#define COHORT_ALL_32(access) COHORT_FLOATS_32(access, 0)
#define COHORT_NAMES_32                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define COHORT_NAMES_64                                                                \
  COHORT_NAMES_32                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// A product of two tiles; `scale` is 0 to overwrite d and 1 to add to it, `major` 0 for K-major operands and 1 for others. P0 and
// P1 are the numbers of the operands after the N / 2 accumulators.
#define COHORT_WGMMA_TILES(TYPE, N, NAMES, FLOATS, ACCESS, SCALE, MAJOR, P0, P1)                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NAMES "}, %" #P0 ", %" #P1 ", " SCALE \
               ", 1, 1, " MAJOR ", " MAJOR ";\n"                                                                          \
               : FLOATS(ACCESS)                                                                                           \
               : "l"(a), "l"(b))
// P0 to P4 are those numbers of a product with a fragment.
#define COHORT_WGMMA(ELEMENT, TYPE, N, NAMES, FLOATS, P0, P1, P2, P3, P4)                                                     \
  template <>                                                                                                                 \
  struct Wgmma<ELEMENT, N> {                                                                                                  \
    template <bool FIRST>                                                                                                     \
    __device__ static inline void from_shared(float (&d)[N / 2], std::uint64_t a, std::uint64_t b) {                          \
      if constexpr (FIRST) {                                                                                                  \
        COHORT_WGMMA_TILES(TYPE, N, NAMES, FLOATS, "=f", "0", "0", P0, P1);                                                   \
      } else {                                                                                                                \
        COHORT_WGMMA_TILES(TYPE, N, NAMES, FLOATS, "+f", "1", "0", P0, P1);                                                   \
      }                                                                                                                       \
    }                                                                                                                         \
    template <bool FIRST>                                                                                                     \
    __device__ static inline void from_columns(float (&d)[N / 2], std::uint64_t a, std::uint64_t b) {                         \
      if constexpr (FIRST) {                                                                                                  \
        COHORT_WGMMA_TILES(TYPE, N, NAMES, FLOATS, "=f", "0", "1", P0, P1);                                                   \
      } else {                                                                                                                \
        COHORT_WGMMA_TILES(TYPE, N, NAMES, FLOATS, "+f", "1", "1", P0, P1);                                                   \
      }                                                                                                                       \
    }                                                                                                                         \
    __device__ static inline void from_registers(float (&d)[N / 2], const std::uint32_t* a, std::uint64_t b) {                \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NAMES "}, {%" #P0 ", %" #P1 ", %" #P2 \
                   ", %" #P3 "}, %" #P4 ", 1, 1, 1, 1;\n"                                                                     \
                   : FLOATS("+f")                                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                     \
    }                                                                                                                         \
  };

COHORT_WGMMA(__nv_bfloat16, "bf16", 64, COHORT_NAMES_32, COHORT_ALL_32, 32, 33, 34, 35, 36)
COHORT_WGMMA(__nv_bfloat16, "bf16", 128, COHORT_NAMES_64, COHORT_FLOATS_64, 64, 65, 66, 67, 68)
COHORT_WGMMA(__half, "f16", 64, COHORT_NAMES_32, COHORT_ALL_32, 32, 33, 34, 35, 36)
COHORT_WGMMA(__half, "f16", 128, COHORT_NAMES_64, COHORT_FLOATS_64, 64, 65, 66, 67, 68)

#undef COHORT_WGMMA
#undef COHORT_WGMMA_TILES
#undef COHORT_NAMES_64
#undef COHORT_NAMES_32
#undef COHORT_ALL_32
#undef COHORT_FLOATS_64
#undef COHORT_FLOATS_32
#undef COHORT_FLOATS_8

/// Issues d [64 x N] = a b^T, a [64 x K] and b [N x K] tiles of rows. 16 elements of K are 32 bytes of a row: moving a descriptor
/// on by them inside a 128-byte row is legal, since the swizzle is applied to the final address.
template <class T, int N, int K>
__device__ inline void multiply_rows(float (&d)[N / 2], const T* a, const T* b) {
  const std::uint64_t first_a = tile_descriptor(a, 16), first_b = tile_descriptor(b, 16);
  Wgmma<T, N>::template from_shared<true>(d, first_a, first_b);
#pragma unroll
  for (int k = 1; k < K / 16; ++k) {
    const int chunk = k / 4, inside = (k % 4) * 32;
    Wgmma<T, N>::template from_shared<false>(d, first_a + (chunk * 64 * kTileRowBytes + inside) / 16,
                                             first_b + (chunk * N * kTileRowBytes + inside) / 16);
  }
}

/// Issues d [64 x N] = a^T b, a [K x 64] and b [K x N] tiles of K rows.
template <class T, int N, int K>
__device__ inline void multiply_columns(float (&d)[N / 2], const T* a, const T* b) {
  const std::uint64_t first_a = tile_descriptor(a, 16), first_b = tile_descriptor(b, K * kTileRowBytes);
  Wgmma<T, N>::template from_columns<true>(d, first_a, first_b);
#pragma unroll
  for (int k = 1; k < K / 16; ++k) {
    const int rows = k * 16 * kTileRowBytes / 16;
    Wgmma<T, N>::template from_columns<false>(d, first_a + rows, first_b + rows);
  }
}

/// Issues d [64 x N] += a b, a [64 x K] a fragment packed in registers, b [K x N] a tile of K rows.
template <class T, int N, int K>
__device__ inline void multiply_fragment(float (&d)[N / 2], const std::uint32_t (&a)[K / 4], const T* b) {
  const std::uint64_t first_b = tile_descriptor(b, K * kTileRowBytes);
#pragma unroll
  for (int k = 0; k < K / 16; ++k) Wgmma<T, N>::from_registers(d, a + 4 * k, first_b + k * 16 * kTileRowBytes / 16);
}

// ---- Arithmetic on fragments.

/// 2^x; 0 for minus infinity.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline std::uint32_t pack_pair(__nv_bfloat16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline std::uint32_t pack_pair(__half, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float2 unpack_pair(__nv_bfloat16, std::uint32_t bits) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits));
}
__device__ inline float2 unpack_pair(__half, std::uint32_t bits) {
  return __half22float2(*reinterpret_cast<const __half2*>(&bits));
}

/// The product of two pairs.
template <class T>
__device__ inline float dot_pair(T, std::uint32_t a, std::uint32_t b) {
  const float2 x = unpack_pair(T{}, a), y = unpack_pair(T{}, b);
  return x.x * y.x + x.y * y.y;
}

/// The sum over the 4 lanes that hold one row of a fragment.
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFF, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFF, x, 2);
}
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 2));
}

}  // namespace cohort::ops::cuda::hopper
