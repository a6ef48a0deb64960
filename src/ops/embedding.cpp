#include "ops/embedding.hpp"

#include "ops/cuda/ops.hpp"
#include "ops/fp32_copies.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

void check(std::span<const std::int32_t> tokens, const Tensor& rows, const Tensor& table) {
  COHORT_CHECK(static_cast<Count>(tokens.size()) == rows.shape().rows() && rows.shape().columns() == table.shape().columns(),
               "embedding: {} tokens, rows {}, table {}", tokens.size(), rows.shape().str(), table.shape().str());
  const Count vocabulary = table.shape()[0];
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    COHORT_CHECK(tokens[r] >= 0 && tokens[r] < vocabulary, "embedding: token {} at row {} is outside the vocabulary of {}",
                 tokens[r], r, vocabulary);
  }
}

}  // namespace

void embedding_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& token_table,
                       const Tensor& position_table) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::embedding_forward(exec, out, tokens, token_table, position_table);
  }
  if (is_narrow(out)) {
    Fp32Copies fp32;
    return embedding_forward(exec, fp32.out(out), tokens, fp32.in(token_table), fp32.in(position_table));
  }
  check(tokens, out, token_table);
  const Count n = out.shape().columns();
  const Count context = position_table.defined() ? position_table.shape()[0] : 1;
  float* o = out.f32();
  const float* table = token_table.f32();
  const float* positions = position_table.defined() ? position_table.f32() : nullptr;
  const std::int32_t* ids = tokens.data();
  for_rows(exec, "cohort::embedding_forward", out.shape().rows(), [=](Count r) {
    const float* word = table + ids[r] * n;
    float* row = o + r * n;
    if (positions != nullptr) {
      const float* position = positions + r % context * n;
#pragma omp simd
      for (Count c = 0; c < n; ++c) row[c] = word[c] + position[c];
    } else {
      std::copy(word, word + n, row);
    }
  });
}

void embedding_backward(const Exec& exec, const Tensor& dtoken_table, const Tensor& dposition_table,
                        std::span<const std::int32_t> tokens, const Tensor& dout) {
  if constexpr (kCudaBuilt) {
    if (exec.cuda()) return cuda::embedding_backward(exec, dtoken_table, dposition_table, tokens, dout);
  }
  if (is_narrow(dout)) {
    Fp32Copies fp32;
    return embedding_backward(exec, dtoken_table, dposition_table, tokens, fp32.in(dout));
  }
  check(tokens, dout, dtoken_table);
  const Count rows = dout.shape().rows();
  const Count n = dout.shape().columns();
  const Count context = dposition_table.defined() ? dposition_table.shape()[0] : 1;
  float* dtable = dtoken_table.f32();
  float* dpositions = dposition_table.defined() ? dposition_table.f32() : nullptr;
  const float* d = dout.f32();
  const std::int32_t* ids = tokens.data();
  for_column_chunks(exec, "cohort::embedding_backward", n, [=](Count begin, Count end) {
    for (Count r = 0; r < rows; ++r) {
      const float* row = d + r * n;
      float* word = dtable + ids[r] * n;
#pragma omp simd
      for (Count c = begin; c < end; ++c) word[c] += row[c];
      if (dpositions == nullptr) continue;
      float* position = dpositions + r % context * n;
#pragma omp simd
      for (Count c = begin; c < end; ++c) position[c] += row[c];
    }
  });
}

}  // namespace cohort::ops
