#include "ops/vocabulary_part.hpp"

#include <cmath>

#include "ops/cross_entropy.hpp"
#include "ops/embedding.hpp"
#include "ops/fast_math.hpp"
#include "ops/op_note.hpp"
#include "ops/parallel.hpp"
#include "ops/pointwise.hpp"

namespace cohort::ops {
namespace {

void check_ids(const Exec& exec, const char* what, std::span<const std::int32_t> ids, Count rows, Count vocabulary,
               bool ignores) {
  COHORT_CHECK(static_cast<Count>(ids.size()) == rows, "{} {} for {} rows", ids.size(), what, rows);
  if (exec.gpu() || counting()) return;  // in device memory whoever copied them there has checked them
  for (std::size_t r = 0; r < ids.size(); ++r) {
    COHORT_CHECK((ignores && ids[r] == kIgnoredTarget) || (ids[r] >= 0 && ids[r] < vocabulary),
                 "{} {} at row {} is outside the vocabulary of {}", what, ids[r], r, vocabulary);
  }
}

template <class T>
void gather_kernel(const Exec& exec, Count rows, Count n, T* out, const std::int32_t* tokens, const T* table, const T* positions,
                   Count context, Count begin, Count end) {
  for_elements(
      exec, "cohort::embedding_part_forward", rows, n, KOKKOS_LAMBDA(Count r, Count c) {
        const Count id = tokens[r];
        const float word = id >= begin && id < end ? to_float(table[(id - begin) * n + c]) : 0.0f;
        const float position = positions == nullptr ? 0.0f : to_float(positions[r % context * n + c]);
        out[r * n + c] = from_float<T>(word + position);
      });
}

template <class T>
void clear_other_rows_kernel(const Exec& exec, Count rows, Count n, T* x, const std::int32_t* tokens, Count begin, Count end) {
  for_elements(
      exec, "cohort::embedding_part_backward", rows, n, KOKKOS_LAMBDA(Count r, Count c) {
        if (tokens[r] < begin || tokens[r] >= end) x[r * n + c] = from_float<T>(0.0f);
      });
}

void clear_other_rows(const Exec& exec, const Tensor& x, const std::int32_t* tokens, const VocabularyPart& part) {
  const OpNote note("embedding_part_backward", {&x}, {});
  with_storage_type(x, [&]<class T>(T) {
    clear_other_rows_kernel(exec, x.shape().rows(), x.shape().columns(), x.data<T>(), tokens, part.begin, part.end);
  });
}

// What the loops over logits need to know.
struct Softmax {
  Count rows, stride, begin, columns;  // columns of the part, then padding up to the stride
  float* largest;
  float* exponentials;
  float* logits_of_targets;
  const std::int32_t* targets;
};

Softmax softmax_of(const Tensor& logits, const Tensor& largest, const Tensor& sums, std::span<const std::int32_t> targets,
                   const VocabularyPart& part) {
  const Count rows = logits.shape().rows();
  COHORT_CHECK(static_cast<Count>(targets.size()) == rows, "softmax: {} targets for logits {}", targets.size(),
               logits.shape().str());
  COHORT_CHECK(
      largest.elements() == rows && sums.elements() == 2 * rows && part.rows() > 0 && part.rows() <= logits.shape().columns(),
      "softmax: logits {}, largest {}, sums {}, {} columns", logits.shape().str(), largest.shape().str(), sums.shape().str(),
      part.rows());
  return {rows, logits.shape().columns(), part.begin, part.rows(), largest.f32(), sums.f32(), sums.f32() + rows, targets.data()};
}

template <class T>
void statistics_kernel(const Exec& exec, const Softmax& s, const T* logits) {
  for_rows<RowThreads::team>(
      exec, "cohort::softmax_statistics", s.rows, s.columns, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        const T* x = logits + r * s.stride;
        const float largest = row.max(s.columns, in(x));
        const float sum = row.sum(
            s.columns, [=](float logit) { return fast_exp(logit - largest); }, in(x));
        const Count target = s.targets[r] - s.begin;
        row.once([=] {
          s.largest[r] = largest;
          s.exponentials[r] = sum;
          s.logits_of_targets[r] = target >= 0 && target < s.columns ? to_float(x[target]) : 0.0f;
        });
      });
}

template <class T>
void gradient_kernel(const Exec& exec, const Softmax& s, T* logits, float scale) {
  for_rows<RowThreads::team>(
      exec, "cohort::softmax_gradient", s.rows, s.columns, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        T* x = logits + r * s.stride;
        row.zip(
            s.stride - s.columns, [=](float& padding) { padding = 0.0f; }, out(x + s.columns));
        if (s.targets[r] == kIgnoredTarget) {
          row.zip(
              s.columns, [=](float& gradient) { gradient = 0.0f; }, out(x));
          return;
        }
        const Count target = s.targets[r] - s.begin;  // perhaps none of this part's columns
        const float largest = s.largest[r];
        const float factor = scale / s.exponentials[r];
        const auto gradient = [=](float& element) { element = fast_exp(element - largest) * factor; };
        if (target < 0 || target >= s.columns) return row.zip(s.columns, gradient, in_out(x));
        // The threads' maximum comes behind every thread's look at the target's logit.
        const float logit = row.max(1, in(x + target));
        row.zip(s.columns, gradient, in_out(x));
        row.at(
            s.columns, target, [=](float& element) { element = fast_exp(logit - largest) * factor - scale; }, out(x));
      });
}

}  // namespace

void embedding_part_forward(const Exec& exec, const Tensor& out, std::span<const std::int32_t> tokens, const Tensor& table,
                            const Tensor& position_table, const VocabularyPart& part) {
  const OpNote note("embedding_part_forward", {&table, &position_table}, {&out},
                    traffic(out, (position_table.defined() ? 3 : 2) * out.bytes(), "embedding_forward"));
  const Count rows = out.shape().rows();
  const Count n = out.shape().columns();
  check_ids(exec, "token", tokens, rows, part.vocabulary, false);
  COHORT_CHECK(table.shape()[0] == part.rows() && table.shape().columns() == n, "embedding: rows {}, table {} of {} entries",
               out.shape().str(), table.shape().str(), part.rows());
  const bool positions = position_table.defined();
  with_storage_type(out, [&]<class T>(T) {
    gather_kernel(exec, rows, n, out.data<T>(), tokens.data(), static_cast<const T*>(table.data<T>()),
                  positions ? static_cast<const T*>(position_table.data<T>()) : nullptr,
                  positions ? position_table.shape()[0] : 1, part.begin, part.end);
  });
}

void embedding_part_backward(const Exec& exec, const Tensor& dtable, const Tensor& dposition_table,
                             std::span<const std::int32_t> tokens, const Tensor& dout, const Tensor& ids,
                             const VocabularyPart& part) {
  const OpNote note("embedding_part_backward", {&dout}, {&dtable, &dposition_table}, std::nullopt);
  const Count rows = dout.shape().rows();
  const Count n = dout.shape().columns();
  check_ids(exec, "token", tokens, rows, part.vocabulary, false);
  COHORT_CHECK(ids.elements() == rows, "embedding: ids {} for {} rows", ids.shape().str(), rows);
  if (dposition_table.defined()) {  // each sample is a row of B rows of T C elements
    const Count elements = dposition_table.elements();
    bias_backward(exec, dposition_table.reshaped({elements}), dout.reshaped({rows * n / elements, elements}));
  }
  // The rows of other parts' tokens add zeros to the first entry: so one op, with its fixed order of sums, serves both.
  const std::int32_t* all = tokens.data();
  auto* own = ids.data<std::int32_t>();
  const Count begin = part.begin, end = part.end;
  for_elements(
      exec, "cohort::embedding_part_ids", 1, rows, KOKKOS_LAMBDA(Count, Count r) {
        own[r] = all[r] >= begin && all[r] < end ? static_cast<std::int32_t>(all[r] - begin) : 0;
      });
  clear_other_rows(exec, dout, all, part);
  embedding_backward(exec, dtable, {}, {own, tokens.size()}, dout);
}

void softmax_statistics(const Exec& exec, const Tensor& largest, const Tensor& sums, const Tensor& logits,
                        std::span<const std::int32_t> targets, const VocabularyPart& part) {
  const OpNote note("softmax_statistics", {&logits}, {&largest, &sums}, traffic(logits, logits.bytes(), "cross_entropy_forward"));
  check_ids(exec, "target", targets, logits.shape().rows(), part.vocabulary, true);
  const Softmax s = softmax_of(logits, largest, sums, targets, part);
  with_storage_type(logits, [&]<class T>(T) { statistics_kernel<T>(exec, s, logits.data<T>()); });
}

void rescale_sums(const Exec& exec, const Tensor& sums, const Tensor& largest, const Tensor& largest_of_all) {
  const OpNote note("rescale_sums", {&largest, &largest_of_all}, {&sums}, std::nullopt);
  float* sum = sums.f32();
  const float* own = largest.f32();
  const float* all = largest_of_all.f32();
  for_elements(
      exec, "cohort::rescale_sums", 1, largest.elements(),
      KOKKOS_LAMBDA(Count, Count r) { sum[r] *= std::exp(own[r] - all[r]); });
}

void cross_entropy_of_sums(const Exec& exec, const Tensor& loss_sum, const Tensor& largest_of_all, const Tensor& sums,
                           std::span<const std::int32_t> targets) {
  const OpNote note("cross_entropy", {&largest_of_all, &sums}, {&loss_sum}, std::nullopt);
  const Count rows = largest_of_all.elements();
  const float* largest = largest_of_all.f32();
  const float* exponentials = sums.f32();
  const float* logits_of_targets = exponentials + rows;
  const std::int32_t* ids = targets.data();
  // One row of as many elements as there are losses.
  add_row_sums<RowThreads::team>(
      exec, "cohort::cross_entropy_of_sums", 1, rows, loss_sum.data<double>(), KOKKOS_LAMBDA(const Row& row) {
        return row.sum<double>(
            rows,
            [=](int r) {
              if (ids[r] == kIgnoredTarget) return 0.0;
              return std::log(static_cast<double>(exponentials[r])) + static_cast<double>(largest[r]) -
                     static_cast<double>(logits_of_targets[r]);
            },
            indices());
      });
}

void softmax_gradient(const Exec& exec, const Tensor& logits, const Tensor& largest_of_all, const Tensor& sums,
                      std::span<const std::int32_t> targets, const VocabularyPart& part, float scale) {
  const OpNote note("softmax_gradient", {&largest_of_all, &sums}, {&logits}, traffic(logits, 2 * logits.bytes()));
  const Softmax s = softmax_of(logits, largest_of_all, sums, targets, part);
  with_storage_type(logits, [&]<class T>(T) { gradient_kernel<T>(exec, s, logits.data<T>(), scale); });
}

}  // namespace cohort::ops
