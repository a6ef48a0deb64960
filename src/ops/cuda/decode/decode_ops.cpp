// From tensors to the kernels of text generation.
#include "base/error.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/decode/decode_kernels.hpp"
#include "ops/cuda/ops.hpp"

namespace cohort::ops::cuda {

void row_product(const Exec&, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& residual,
                 const Tensor& bias) {
  row_product(gpu::compute_stream(), y.dtype(),
              {.rows = x.shape().rows(),
               .n = weight.shape()[0],
               .k = weight.shape()[1],
               .y = y.raw(),
               .y_stride = y.shape().columns(),
               .x = x.raw(),
               .weight = weight.raw(),
               .residual = residual.defined() ? residual.raw() : nullptr,
               .bias = bias.defined() ? bias.raw() : nullptr});
  gpu::check_launch("row_product");
}

void cached_attention(const Exec&, const AttentionShape& shape, const Tensor& out, const Tensor& qkv, const CachedHeads& cache,
                      const CachePlaces& places, const Tensor& scratch) {
  const Count parts = parts_of(places);
  const CachedPartials partials = cached_partials(scratch, places.rows() * shape.heads * parts, shape.head_size);
  static_assert(kCachePartKeys <= kMostPartKeys);
  cached_attention(gpu::compute_stream(), qkv.dtype(),
                   {.rows = places.rows(),
                    .heads = static_cast<int>(shape.heads),
                    .kv_heads = static_cast<int>(shape.kv_heads),
                    .head_size = static_cast<int>(shape.head_size),
                    .packed_width = shape.packed_width(),
                    .tokens = cache.keys.shape()[2],
                    .qkv = qkv.raw(),
                    .keys = cache.keys.raw(),
                    .values = cache.values.raw(),
                    .slots = places.slots.data(),
                    .positions = places.positions.data(),
                    .out = out.raw(),
                    .part_keys = kCachePartKeys,
                    .parts = parts,
                    .part_out = partials.out,
                    .part_most = partials.most,
                    .part_sum = partials.sum});
  gpu::check_launch("cached_attention");
}

}  // namespace cohort::ops::cuda
