#include "ops/gemm.hpp"

namespace cohort::ops {

MatrixView as_matrix(const Tensor& tensor) {
  return {tensor.f32(), tensor.shape().rows(), tensor.shape().columns(), tensor.shape().columns()};
}

}  // namespace cohort::ops
