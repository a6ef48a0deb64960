#include "ops/copy_columns.hpp"

#include "ops/op_note.hpp"
#include "ops/parallel.hpp"

namespace cohort::ops {
namespace {

// A function of its own because nvcc takes no device lambda inside a generic lambda.
template <class To, class From>
void copy_columns_kernel(const Exec& exec, Count rows, Count columns, To* to, Count to_stride, const From* from,
                         Count from_stride) {
  for_rows(
      exec, "cohort::copy_columns", rows, columns, KOKKOS_LAMBDA(const Row& row) {
        const Count r = row.index();
        row.zip(
            columns, [=](float value, float& copy) { copy = value; }, in(from + r * from_stride), out(to + r * to_stride));
      });
}

}  // namespace

void copy_columns(const Exec& exec, const Tensor& to, Count to_column, const Tensor& from, Count from_column, Count columns) {
  const Count rows = to.shape().rows(), to_stride = to.shape().columns(), from_stride = from.shape().columns();
  const auto bytes = static_cast<double>(rows * columns * (size_of(to.dtype()) + size_of(from.dtype())));
  const OpNote note("copy_columns", {&from}, {&to}, OpWork{.dtype = from.dtype(), .m = rows, .n = columns, .bytes = bytes});
  COHORT_CHECK(from.shape().rows() == rows && to_column + columns <= to_stride && from_column + columns <= from_stride,
               "copy of {} columns: to {} of {}, from {} of {}", columns, to_column, to.shape().str(), from_column,
               from.shape().str());
  with_storage_type(to, [&]<class To>(To) {
    with_storage_type(from, [&]<class From>(From) {
      copy_columns_kernel<To, From>(exec, rows, columns, to.data<To>() + to_column, to_stride, from.data<From>() + from_column,
                                    from_stride);
    });
  });
}

}  // namespace cohort::ops
