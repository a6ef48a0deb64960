// The entry to the portable flash attention: where the rows of whole attention and of a block lie, and which kernels serve which
// type.
#include "ops/cuda/attention/flash_attention.hpp"

#include <cmath>
#include <cstddef>

#include "ops/cuda/attention/flash_attention_common.cuh"

namespace cohort::ops::cuda {
namespace {

using flash::Documents;
using flash::Operands;
using flash::Rows;
using flash::Sizes;

Rows rows_of(Count rows_of_sample, Count width) { return {rows_of_sample * width, static_cast<int>(width)}; }

/// `bytes` of element `index`.
template <class Pointer>
Pointer at(Pointer data, Count index, Bytes element_bytes) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return static_cast<Pointer>(static_cast<Byte*>(data) + index * element_bytes);
}

Sizes sizes_of_heads(const AttentionShape& shape) {
  Sizes s{};
  s.batch = static_cast<int>(shape.batch);
  s.heads = static_cast<int>(shape.heads);
  s.kv_heads = static_cast<int>(shape.kv_heads);
  s.head_size = static_cast<int>(shape.head_size);
  s.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_size)));
  s.tokens = static_cast<int>(shape.tokens);
  return s;
}

Sizes sizes_of(const AttentionShape& shape) {
  Sizes s = sizes_of_heads(shape);
  s.queries = s.keys = s.lse_rows = s.tokens;
  s.q = s.kv = s.dq = s.dkv = rows_of(shape.tokens, shape.packed_width());
  s.out = rows_of(shape.tokens, shape.width());
  return s;
}

Count kv_width(const AttentionShape& shape) { return 2 * shape.kv_heads * shape.head_size; }

Sizes sizes_of(const FlashBlock& block) {
  Sizes s = sizes_of_heads(block.sequence);
  s.queries = static_cast<int>(block.queries.count);
  s.keys = static_cast<int>(block.keys.count);
  s.query_position = static_cast<int>(block.queries.position);
  s.key_position = static_cast<int>(block.keys.position);
  s.q = rows_of(block.query_rows, block.query_width);
  s.out = s.dq = rows_of(block.query_rows, block.sequence.width());
  s.kv = s.dkv = rows_of(block.key_rows, kv_width(block.sequence));
  s.lse_rows = static_cast<int>(block.query_rows);
  s.block = true;
  return s;
}

/// Key and value heads follow the query heads in a packed row.
Operands<void> operands_of(const AttentionShape& shape, DType dtype, const void* qkv) {
  const Count keys = shape.width(), values = keys + shape.kv_heads * shape.head_size;
  return {qkv, at(qkv, keys, size_of(dtype)), at(qkv, values, size_of(dtype))};
}
Operands<void> operands_of(const FlashBlock& block, DType dtype, const void* q, const void* kv) {
  const Count keys = block.keys.row * kv_width(block.sequence);
  const Count values = keys + block.sequence.kv_heads * block.sequence.head_size;
  return {at(q, block.queries.row * block.query_width, size_of(dtype)), at(kv, keys, size_of(dtype)),
          at(kv, values, size_of(dtype))};
}

Operands<float> fp32(const Operands<void>& operands) { return flash::typed<float>(operands); }

void forward(CUstream_st* stream, DType dtype, const Sizes& s, void* out, float* lse, const Operands<void>& operands,
             const FlashDropout& dropout, const Documents& documents) {
  if (dtype == DType::f32)
    return flash::forward_fp32(stream, s, static_cast<float*>(out), lse, fp32(operands), dropout, documents);
  flash::forward_narrow(stream, dtype, s, out, lse, operands, dropout, documents);
}

void backward(CUstream_st* stream, DType dtype, const Sizes& s, void* dq, void* dk, void* dv, const void* dout, const void* out,
              const float* lse, const Operands<void>& operands, void* scratch, const FlashDropout& dropout,
              const Documents& documents) {
  auto* const delta = static_cast<float*>(scratch);
  if (dtype != DType::f32) {
    return flash::backward_narrow(stream, dtype, s, dq, dk, dv, dout, out, lse, operands, delta, dropout, documents);
  }
  flash::backward_fp32(stream, s, static_cast<float*>(dq), static_cast<float*>(dk), static_cast<float*>(dv),
                       static_cast<const float*>(dout), static_cast<const float*>(out), lse, fp32(operands), delta, dropout,
                       documents);
}

}  // namespace

bool flash_attention_supports(DType dtype, const AttentionShape& shape) {
  if (shape.batch < 1 || shape.tokens < 1 || shape.kv_heads < 1 || shape.heads < 1 || shape.heads % shape.kv_heads != 0 ||
      shape.head_size < 1) {
    return false;
  }
  constexpr Count kMost = 0x7fffffff;  // elements of a sample, and blocks of a launch, whose smallest have 16 rows
  if (shape.tokens > kMost / shape.packed_width() || shape.batch > kMost / (shape.heads * ((shape.tokens + 15) / 16)))
    return false;
  if (dtype == DType::f32) return shape.head_size <= 256;
  if (dtype != DType::bf16 && dtype != DType::f16) return false;
  return shape.head_size <= 128 && shape.head_size % 8 == 0;
}

Bytes flash_attention_scratch_bytes(const AttentionShape& shape, DType) {
  return shape.batch * shape.heads * shape.tokens * static_cast<Bytes>(sizeof(float));
}

void flash_attention_forward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* out, float* lse,
                             const void* qkv, const FlashDropout& dropout) {
  forward(stream, dtype, sizes_of(shape), out, lse, operands_of(shape, dtype, qkv), dropout, {shape.first_keys});
}

void flash_attention_backward(CUstream_st* stream, DType dtype, const AttentionShape& shape, void* dqkv, const void* dout,
                              const void* out, const float* lse, const void* qkv, void* scratch, const FlashDropout& dropout) {
  const Count keys = shape.width(), values = keys + shape.kv_heads * shape.head_size;
  backward(stream, dtype, sizes_of(shape), dqkv, at(dqkv, keys, size_of(dtype)), at(dqkv, values, size_of(dtype)), dout, out, lse,
           operands_of(shape, dtype, qkv), scratch, dropout, {shape.first_keys});
}

void flash_partial_attention_forward(CUstream_st* stream, DType dtype, const FlashBlock& block, float* out, float* lse,
                                     const void* q, const void* kv, const FlashDropout& dropout) {
  forward(stream, dtype, sizes_of(block), out + block.queries.row * block.sequence.width(), lse + block.queries.row,
          operands_of(block, dtype, q, kv), dropout, {block.sequence.first_keys});
}

void flash_partial_attention_backward(CUstream_st* stream, DType dtype, const FlashBlock& block, float* dq, float* dkv,
                                      const void* dout, const void* out, const float* lse, const void* q, const void* kv,
                                      void* scratch, const FlashDropout& dropout) {
  const AttentionShape& sequence = block.sequence;
  const Count row = block.queries.row * sequence.width();
  float* const dk = dkv + block.keys.row * kv_width(sequence);
  backward(stream, dtype, sizes_of(block), dq + row, dk, dk + sequence.kv_heads * sequence.head_size,
           at(dout, row, size_of(dtype)), at(out, row, size_of(dtype)), lse + block.queries.row, operands_of(block, dtype, q, kv),
           scratch, dropout, {sequence.first_keys});
}

}  // namespace cohort::ops::cuda
