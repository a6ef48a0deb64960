#include "ops/embedding.hpp"

#include "ops/bins.hpp"
#include "ops/op_note.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

void check(const Exec& exec, std::span<const std::int32_t> tokens, const Tensor& rows, const Tensor& table) {
  COHORT_CHECK(static_cast<Count>(tokens.size()) == rows.shape().rows() && rows.shape().columns() == table.shape().columns(),
               "embedding: {} tokens, rows {}, table {}", tokens.size(), rows.shape().str(), table.shape().str());
  if (exec.gpu() || counting()) return;  // in device memory whoever copied them there has checked them
  const Count vocabulary = table.shape()[0];
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    COHORT_CHECK(tokens[r] >= 0 && tokens[r] < vocabulary, "embedding: token {} at row {} is outside the vocabulary of {}",
                 tokens[r], r, vocabulary);
  }
}

// `positions` is null, or [context, n].
template <class T>
void forward_kernel(const Exec& exec, Count rows, Count n, T* y, const std::int32_t* tokens, const T* table, const T* positions,
                    Count context) {
  for_rows(
      exec, "cohort::embedding_forward", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const auto word = in(table + tokens[r] * n);
        const auto to = out(y + r * n);
        if (positions == nullptr) {
          row.zip(
              n, [=](float w, float& sum) { sum = w; }, word, to);
        } else {
          row.zip(
              n, [=](float w, float p, float& sum) { sum = w + p; }, word, in(positions + r % context * n), to);
        }
      });
}

// The rows of a sample are one row of `elements` gradients, and the sums run over the samples.
template <class T>
void add_positions_kernel(const Exec& exec, Count samples, Count elements, float* dpositions, const T* dout) {
  sum_rows<float>(
      exec, "cohort::embedding_backward_positions", samples, elements, KOKKOS_LAMBDA(float d) { return d; },
      KOKKOS_LAMBDA(Count c, float sum) { dpositions[c] += sum; }, rows_in(dout, elements));
}

}  // namespace

void embedding_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& token_table,
                       const Tensor& position_table) {
  const OpNote note("embedding_forward", {&token_table, &position_table}, {&out},
                    traffic(out, (position_table.defined() ? 3 : 2) * out.bytes()));
  if (const auto kernel = tuned_kernels(exec).embedding_forward) return kernel(exec, out, tokens, token_table, position_table);
  check(exec, tokens, out, token_table);
  const bool positions = position_table.defined();
  with_storage_type(out, [&]<class T>(T) {
    forward_kernel<T>(exec, out.shape().rows(), out.shape().columns(), out.data<T>(), tokens.data(), token_table.data<T>(),
                      positions ? position_table.data<T>() : nullptr, positions ? position_table.shape()[0] : 1);
  });
}

void embedding_backward(const Exec& exec, const Tensor& dtoken_table, const Tensor& dposition_table,
                        std::span<const std::int32_t> tokens, const Tensor& dout) {
  // A row of the table is read and written for each row of dout.
  const Bytes sums = 2 * dout.shape().rows() * dtoken_table.shape().columns() * size_of(DType::f32);
  const OpNote note("embedding_backward", {&dout}, {&dtoken_table, &dposition_table},
                    traffic(dout, dout.bytes() + (dposition_table.defined() ? dposition_table.bytes() : 0) + sums));
  if (const auto kernel = tuned_kernels(exec).embedding_backward)
    return kernel(exec, dtoken_table, dposition_table, tokens, dout);
  check(exec, tokens, dout, dtoken_table);
  with_storage_type(dout, [&]<class T>(T) {
    add_rows_to_bins<T>(exec, "cohort::embedding_backward", dout.shape().rows(), dout.shape().columns(), dtoken_table.shape()[0],
                        dtoken_table.f32(), tokens.data(), dout.data<T>());
    if (!dposition_table.defined()) return;
    const Count elements = dposition_table.elements();
    add_positions_kernel<T>(exec, dout.elements() / elements, elements, dposition_table.f32(), dout.data<T>());
  });
}

}  // namespace cohort::ops
