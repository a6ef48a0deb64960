#include "ops/cached_attention.hpp"

#include <cmath>

#include "ops/fast_math.hpp"
#include "ops/parallel.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check(const AttentionShape& s, const CachedHeads& cache, const Tensor& qkv, const CachePlaces& places) {
  const Shape& kept = cache.keys.shape();
  COHORT_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0 && qkv.shape().columns() == s.packed_width() &&
                   qkv.shape().rows() == places.rows() && places.positions.size() == places.slots.size(),
               "cached attention: qkv {} of {} rows", qkv.shape().str(), places.rows());
  COHORT_CHECK(kept[1] == s.kv_heads && kept[3] == s.head_size && cache.values.shape() == kept && places.longest <= kept[2],
               "cached attention: keys {}, values {}, {} positions", kept.str(), cache.values.shape().str(), places.longest);
}

// The cache as a kernel reads or writes it.
template <class T>
struct Kept {
  T* data;
  Count heads, tokens, head_size;

  KOKKOS_INLINE_FUNCTION T* at(Count slot, Count head, Count position) const {
    return data + ((slot * heads + head) * tokens + position) * head_size;
  }
};

template <class T>
Kept<T> kept(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  return {tensor.data<T>(), shape[1], shape[2], shape[3]};
}

template <class T>
void append_kernel(const Exec& exec, const AttentionShape& s, const Kept<T>& keys, const Kept<T>& values, const T* qkv,
                   Count rows, const std::int32_t* slots, const std::int32_t* positions) {
  const Count kv_heads = s.kv_heads, head_size = s.head_size, packed_width = s.packed_width(), first = s.width();
  for_rows(
      exec, "cohort::cache_append", rows * kv_heads, head_size, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index() / kv_heads, h = row.index() % kv_heads;
        const T* key = qkv + r * packed_width + first + h * head_size;
        const T* value = key + kv_heads * head_size;
        const auto copy = [](float from, float& to) { to = from; };
        row.zip(head_size, copy, in(key), out(keys.at(slots[r], h, positions[r])));
        row.zip(head_size, copy, in(value), out(values.at(slots[r], h, positions[r])));
      });
}

template <class T>
void parts_kernel(const Exec& exec, const AttentionShape& s, const CachedPartials& to, const T* qkv, const Kept<const T>& keys,
                  const Kept<const T>& values, Count rows, Count parts, const std::int32_t* slots,
                  const std::int32_t* positions) {
  const Count heads = s.heads, group = s.heads / s.kv_heads, head_size = s.head_size, packed_width = s.packed_width();
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  for_rows(
      exec, "cohort::cached_attention_parts", rows * heads * parts, head_size, KOKKOS_LAMBDA(const Row& row) {
        const Count part = row.index() % parts, h = row.index() / parts % heads, r = row.index() / parts / heads;
        const Count first = part * kCachePartKeys, end_of_text = Count{positions[r]} + 1;
        const Count seen = end_of_text - first < kCachePartKeys ? end_of_text - first : kCachePartKeys;
        if (seen <= 0) return;  // nobody will ask for this part
        float* const sums = to.out + row.index() * head_size;
        row.each(head_size, [=](Count d) { sums[d] = 0.0f; });
        const T* const q = qkv + r * packed_width + h * head_size;
        const T* k = keys.at(slots[r], h / group, first);
        const T* v = values.at(slots[r], h / group, first);
        float most = -std::numeric_limits<float>::infinity(), sum = 0.0f;
        for (Count key = 0; key < seen; ++key, k += head_size, v += head_size) {
          const float score = scale * row.sum(
                                          head_size, [=](float a, float b) { return a * b; }, in(q), in(k));
          const float keep = score > most ? (sum == 0.0f ? 0.0f : fast_exp(most - score)) : 1.0f;
          most = score > most ? score : most;
          const float weight = score == most ? 1.0f : fast_exp(score - most);
          sum = sum * keep + weight;
          row.each(head_size, [=](Count d) { sums[d] = sums[d] * keep + weight * to_float(v[d]); });
        }
        row.once([=] {
          to.most[row.index()] = most;
          to.sum[row.index()] = sum;
        });
      });
}

template <class T>
void merge_kernel(const Exec& exec, const AttentionShape& s, T* y, const CachedPartials& from, Count rows, Count parts,
                  const std::int32_t* positions) {
  const Count heads = s.heads, head_size = s.head_size;
  for_rows(
      exec, "cohort::cached_attention_merge", rows * heads, head_size, KOKKOS_LAMBDA(const Row& row) {
        const Count entry = row.index() * parts, own_parts = Count{positions[row.index() / heads]} / kCachePartKeys + 1;
        float most = from.most[entry];
        for (Count p = 1; p < own_parts; ++p) most = from.most[entry + p] > most ? from.most[entry + p] : most;
        float sum = 0.0f;
        for (Count p = 0; p < own_parts; ++p) sum += from.sum[entry + p] * fast_exp(from.most[entry + p] - most);
        T* const to = y + row.index() * head_size;
        row.each(head_size, [=](Count d) {
          float total = 0.0f;
          for (Count p = 0; p < own_parts; ++p)
            total += from.out[(entry + p) * head_size + d] * fast_exp(from.most[entry + p] - most);
          to[d] = from_float<T>(total / sum);
        });
      });
}

}  // namespace

void cache_append(const Exec& exec, const AttentionShape& shape, const CachedHeads& cache, const Tensor& qkv,
                  const CachePlaces& places) {
  check(shape, cache, qkv, places);
  with_storage_type(qkv, [&]<class T>(T) {
    append_kernel<T>(exec, shape, kept<T>(cache.keys), kept<T>(cache.values), qkv.data<T>(), places.rows(), places.slots.data(),
                     places.positions.data());
  });
}

CachedPartials cached_partials(const Tensor& scratch, Count entries, Count head_size) {
  float* const out = scratch.f32();
  return {out, out + entries * head_size, out + entries * head_size + entries};
}

Count cached_attention_scratch(const AttentionShape& shape, const CachePlaces& places) {
  return places.rows() * shape.heads * parts_of(places) * (shape.head_size + 2);
}

void cached_attention(const Exec& exec, const AttentionShape& shape, const Tensor& out, const Tensor& qkv,
                      const CachedHeads& cache, const CachePlaces& places, const Tensor& scratch) {
  check(shape, cache, qkv, places);
  COHORT_CHECK(out.shape().columns() == shape.width() && out.shape().rows() == places.rows() &&
                   scratch.elements() >= cached_attention_scratch(shape, places),
               "cached attention: out {}, scratch {}", out.shape().str(), scratch.shape().str());
  if (const auto kernel = tuned_kernels(exec).cached_attention) return kernel(exec, shape, out, qkv, cache, places, scratch);
  const Count parts = parts_of(places), rows = places.rows();
  const CachedPartials between = cached_partials(scratch, rows * shape.heads * parts, shape.head_size);
  with_storage_type(qkv, [&]<class T>(T) {
    const auto read = [](const Tensor& tensor) {
      const Kept<T> all = kept<T>(tensor);
      return Kept<const T>{all.data, all.heads, all.tokens, all.head_size};
    };
    parts_kernel<T>(exec, shape, between, qkv.data<T>(), read(cache.keys), read(cache.values), rows, parts, places.slots.data(),
                    places.positions.data());
    merge_kernel<T>(exec, shape, out.data<T>(), between, rows, parts, places.positions.data());
  });
}

}  // namespace cohort::ops
