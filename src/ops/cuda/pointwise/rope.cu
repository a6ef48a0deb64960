#include "ops/cuda/common/pack.cuh"
#include "ops/cuda/pointwise/rope.hpp"

namespace cohort::ops::cuda {
namespace {

constexpr int kRowsOfBlock = 8;  // one warp each
// Heads of one lane whose packs are on their way at one time.
constexpr int kAhead = 5;

struct Sizes {
  Count rows;
  int tokens;
  int rotated_heads;  // queries and keys; values stay
  int head_size;
  int packed_width;
};

// A warp rotates the heads of one row. A lane keeps its place in the head and goes from head to head, so that it reads its
// entries of the tables once. `sign` is that of the angle.
template <class T, int kVec>
__global__ void __launch_bounds__(32 * kRowsOfBlock)
    rotate(T* qkv, const float* __restrict__ cosines, const float* __restrict__ sines, Sizes s, float sign) {
  const Count row = Count{blockIdx.x} * kRowsOfBlock + threadIdx.x / 32;
  if (row >= s.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int half = s.head_size / 2;
  const int packs = half / kVec;
  const int lanes_of_head = min(packs, 32);
  const int heads_at_once = 32 / lanes_of_head;
  if (lane >= heads_at_once * lanes_of_head) return;
  T* const data = qkv + row * s.packed_width;
  const Count entry = row % s.tokens * half;

  for (int pack = lane % lanes_of_head; pack < packs; pack += lanes_of_head) {
    const int place = pack * kVec;
    float cosine[kVec];
    float sine[kVec];
    load_floats(cosine, cosines + entry + place);
    load_floats(sine, sines + entry + place);
    for (int head = lane / lanes_of_head; head < s.rotated_heads; head += kAhead * heads_at_once) {
      Pack<T, kVec> firsts[kAhead];
      Pack<T, kVec> seconds[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int h = head + k * heads_at_once;
        if (h >= s.rotated_heads) continue;
        firsts[k] = load<T, kVec>(data + h * s.head_size + place);
        seconds[k] = load<T, kVec>(data + h * s.head_size + half + place);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int h = head + k * heads_at_once;
        if (h >= s.rotated_heads) continue;
        float a[kVec];
        float b[kVec];
        widen(a, firsts[k]);
        widen(b, seconds[k]);
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          const float turned = a[i] * cosine[i] - sign * b[i] * sine[i];
          b[i] = b[i] * cosine[i] + sign * a[i] * sine[i];
          a[i] = turned;
        }
        store(data + h * s.head_size + place, narrow<T>(a));
        store(data + h * s.head_size + half + place, narrow<T>(b));
      }
    }
  }
}

void launch(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* qkv, const float* cosines, const float* sines,
            float sign) {
  const Sizes sizes{shape.batch * shape.tokens, static_cast<int>(shape.tokens), static_cast<int>(shape.heads + shape.kv_heads),
                    static_cast<int>(shape.head_size), static_cast<int>(shape.packed_width())};
  const Count half = shape.head_size / 2;
  if (sizes.rows == 0 || half == 0) return;
  const auto blocks = static_cast<unsigned>(divide_up(sizes.rows, kRowsOfBlock));
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = is_wide<T>(half, qkv, cosines, sines) ? rotate<T, kWide<T>> : rotate<T, 1>;
    kernel<<<blocks, 32 * kRowsOfBlock, 0, stream>>>(static_cast<T*>(qkv), cosines, sines, sizes, sign);
  });
}

}  // namespace

void rope_forward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* qkv, const float* cosines,
                  const float* sines) {
  launch(stream, dtype, shape, qkv, cosines, sines, 1.0f);
}

void rope_backward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const float* cosines,
                   const float* sines) {
  launch(stream, dtype, shape, dqkv, cosines, sines, -1.0f);
}

}  // namespace cohort::ops::cuda
