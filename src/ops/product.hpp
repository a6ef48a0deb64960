// The portable matrix product, with what a linear layer adds to it: for every Kokkos back end, in any storage type. The library's
// products on CPUs are in ops/gemm.hpp, cuBLASLt's in ops/cuda/gemm/.
#pragma once

#include "ops/exec.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

/// A matrix in memory: element (i, j) is at i * row_stride + j * column_stride.
struct StridedMatrix {
  void* data;
  DType dtype;
  Count rows, columns;
  Count row_stride, column_stride;

  StridedMatrix transposed() const { return {data, dtype, columns, rows, column_stride, row_stride}; }
};

/// A tensor as a matrix, of which only the first `columns` columns count.
StridedMatrix strided(const Tensor& tensor, Count columns);
inline StridedMatrix strided(const Tensor& tensor) { return strided(tensor, tensor.shape().columns()); }

/// C = A B + beta C + addend + bias for each row: C [m, n], A [m, k], B [k, n] of one type, C of that type or fp32; addend [m, n]
/// and bias [n], of C's type, may be undefined; addend may be C. beta is 0, and C then not read, or 1. Sums and additions are in
/// fp32, and rounded once. Moves (m n k / 128) (2 sizes of an element) bytes and those of C, addend and bias on a GPU, for 2 m n
/// k operations.
void portable_product(const Exec& exec, const StridedMatrix& c, const StridedMatrix& a, const StridedMatrix& b, float beta = 0.0f,
                      const Tensor& addend = {}, const Tensor& bias = {});

}  // namespace cohort::ops
