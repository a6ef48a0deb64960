#include "ops/pointwise.hpp"

#include "base/random.hpp"
#include "ops/columns.hpp"
#include "ops/op_note.hpp"
#include "ops/tuned.hpp"

namespace cohort::ops {
namespace {

// Here and in the other ops a kernel is a function of its own, for each storage type T, because nvcc takes no device lambda
// inside a generic lambda.

template <class T>
void add_bias_kernel(const Exec& exec, Count rows, Count n, T* x, const T* bias) {
  for_rows(
      exec, "cohort::add_bias", rows, n, KOKKOS_LAMBDA(const Row& row) {
        row.zip(
            n, [=](float& value, float b) { value += b; }, in_out(x + row.index() * n), in(bias));
      });
}

template <class T>
void bias_backward_kernel(const Exec& exec, Count rows, Count n, float* dbias, const T* dx) {
  sum_rows<float>(
      exec, "cohort::bias_backward", rows, n, KOKKOS_LAMBDA(float d) { return d; },
      KOKKOS_LAMBDA(Count c, float sum) { dbias[c] += sum; }, rows_in(dx, n));
}

// Shapes do not matter to these two: in blocks, so that a flat array (a shard of gradients) is not one row, the work of a single
// team.
template <class T>
void add_kernel(const Exec& exec, Count elements, T* sum, const T* x, const T* y) {
  for_rows(
      exec, "cohort::add", block_count(elements), kBlock, KOKKOS_LAMBDA(const Row& row) {
        const Count first = row.index() * kBlock;
        const Count count = first + kBlock < elements ? kBlock : elements - first;
        row.zip(
            count, [=](float a, float b, float& to) { to = a + b; }, in(x + first), in(y + first), out(sum + first));
      });
}

template <class T>
void scale_kernel(const Exec& exec, Count elements, T* x, float factor) {
  for_rows(
      exec, "cohort::scale", block_count(elements), kBlock, KOKKOS_LAMBDA(const Row& row) {
        const Count first = row.index() * kBlock;
        const Count count = first + kBlock < elements ? kBlock : elements - first;
        row.zip(
            count, [=](float& value) { value *= factor; }, in_out(x + first));
      });
}

template <class T>
void add_residual_kernel(const Exec& exec, Count rows, Count n, T* sum, const T* x, const T* y, const T* bias) {
  for_rows(
      exec, "cohort::add_residual", rows, n, KOKKOS_LAMBDA(const Row& row) {
        const Count first = row.index() * n;
        row.zip(
            n, [=](float a, float b, float c, float& to) { to = a + b + c; }, in(x + first), in(y + first), in(bias),
            out(sum + first));
      });
}

// Where the elements of a sample that are here lie in the whole sample: element i at i + first_shift, or from `second_run` on at
// i + second_shift.
struct SampleElements {
  Count elements;  // of the whole sample
  Count second_run;
  Count first_shift;
  Count second_shift;
};

SampleElements whole_sample(Count elements_here, const TokenRows& rows) {
  if (rows.whole()) return {elements_here, elements_here, 0, 0};
  COHORT_CHECK(elements_here % rows.count() == 0, "dropout: {} elements in {} rows of a sample", elements_here, rows.count());
  const Count n = elements_here / rows.count();
  const auto [first, second] = rows.runs;
  return {rows.tokens * n, second.row * n, (first.position - first.row) * n, (second.position - second.row) * n};
}

template <class T>
void dropout_kernel(const Exec& exec, Count rows, Count n, Count sample_rows, T* x, const DropoutKey& key) {
  const CounterRandom random(key.seed, RandomPurpose::dropout, key.step, key.layer);
  const double probability = key.probability;
  const auto keep_scale = static_cast<float>(1.0 / (1.0 - probability));
  const Count* slots = key.slots.data();
  const SampleElements whole = whole_sample(sample_rows * n, key.rows);
  const Count first_row = key.first_row;
  for_elements(
      exec, "cohort::dropout", rows, n, KOKKOS_LAMBDA(Count r, Count c) {
        T& element = x[r * n + c];
        const Count b = (first_row + r) / sample_rows;
        const Count i = (first_row + r - b * sample_rows) * n + c;
        const Count shift = i < whole.second_run ? whole.first_shift : whole.second_shift;
        const auto index = static_cast<std::uint64_t>(slots[b] * whole.elements + i + shift);
        element = from_float<T>(random.uniform(index) >= probability ? to_float(element) * keep_scale : 0.0f);
      });
}

}  // namespace

void add_bias(const Exec& exec, const Tensor& x, const Tensor& bias) {
  const OpNote note("add_bias", {&x, &bias}, {&x});
  const Count n = x.shape().columns();
  COHORT_CHECK(bias.elements() == n, "add_bias: bias {} to {}", bias.shape().str(), x.shape().str());
  with_storage_type(x, [&]<class T>(T) { add_bias_kernel(exec, x.shape().rows(), n, x.data<T>(), bias.data<T>()); });
}

void bias_backward(const Exec& exec, const Tensor& dbias, const Tensor& dx) {
  const OpNote note("bias_backward", {&dx}, {&dbias});
  if (const auto kernel = tuned_kernels(exec).bias_backward) return kernel(exec, dbias, dx);
  const Count n = dx.shape().columns();
  COHORT_CHECK(dbias.elements() == n, "bias_backward: {} from {}", dbias.shape().str(), dx.shape().str());
  with_storage_type(dx, [&]<class T>(T) { bias_backward_kernel<T>(exec, dx.shape().rows(), n, dbias.f32(), dx.data<T>()); });
}

void add(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y) {
  const OpNote note("add", {&x, &y}, {&out});
  COHORT_CHECK(out.elements() == x.elements() && out.elements() == y.elements(), "add: {} = {} + {}", out.shape().str(),
               x.shape().str(), y.shape().str());
  with_storage_type(out, [&]<class T>(T) { add_kernel(exec, out.elements(), out.data<T>(), x.data<T>(), y.data<T>()); });
}

void scale(const Exec& exec, const Tensor& x, float factor) {
  const OpNote note("scale", {&x}, {&x});
  with_storage_type(x, [&]<class T>(T) { scale_kernel(exec, x.elements(), x.data<T>(), factor); });
}

void add_residual(const Exec& exec, const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& bias) {
  const OpNote note("add_residual", {&x, &y, &bias}, {&out});
  COHORT_CHECK(out.elements() == x.elements() && out.elements() == y.elements() && bias.elements() == x.shape().columns(),
               "add_residual: {} = {} + {} + {}", out.shape().str(), x.shape().str(), y.shape().str(), bias.shape().str());
  with_storage_type(out, [&]<class T>(T) {
    add_residual_kernel(exec, out.shape().rows(), out.shape().columns(), out.data<T>(), x.data<T>(), y.data<T>(), bias.data<T>());
  });
}

void dropout(const Exec& exec, const Tensor& x, const DropoutKey& key) {
  if (key.probability == 0.0) return;
  const OpNote note("dropout", {&x}, {&x});
  const auto samples = static_cast<Count>(key.slots.size());
  const Count rows = x.shape().rows();
  const Count all = key.all_rows == 0 ? rows : key.all_rows;
  COHORT_CHECK(samples > 0 && all % samples == 0 && key.first_row + rows <= all, "dropout: rows {} to {} of {}, of {} samples",
               key.first_row, key.first_row + rows, all, samples);
  with_storage_type(x, [&]<class T>(T) { dropout_kernel(exec, rows, x.shape().columns(), all / samples, x.data<T>(), key); });
}

}  // namespace cohort::ops
