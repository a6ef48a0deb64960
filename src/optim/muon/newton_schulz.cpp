#include "optim/muon/newton_schulz.hpp"

#include <algorithm>
#include <cmath>

#include "base/counting_listener.hpp"
#include "ops/adamw.hpp"
#include "ops/linear.hpp"
#include "ops/parallel.hpp"

namespace cohort::muon {
namespace {

constexpr float kLeastNorm = 1e-7f;  // added to the norm: zeros are not divided by zero
constexpr Bytes kAlignment = 256;    // of what lies in the scratch memory

DType dtype_on(DeviceKind device) { return device == DeviceKind::gpu ? DType::bf16 : DType::f32; }

Bytes aligned(Bytes bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Tensors in the scratch memory, one behind the other.
class Scratch {
 public:
  explicit Scratch(const Tensor& memory) : memory_(memory) {}
  Tensor take(const Shape& shape, DType dtype) {
    const Bytes begin = at_;
    at_ += aligned(shape.elements() * size_of(dtype));
    COHORT_CHECK(at_ <= memory_.bytes(), "{} bytes of scratch memory, which has {}", at_, memory_.bytes());
    return Tensor::wrap(memory_.data<std::uint8_t>() + begin, shape, dtype, memory_.device());
  }

 private:
  const Tensor& memory_;
  Bytes at_ = 0;
};

// x [m, n] = the matrix, or its transpose, over its norm.
template <class T>
void load(const ops::Exec& exec, const Tensor& x, const Tensor& matrix, const Tensor& squares) {
  note_traffic("copy", DType::f32, x.bytes() + matrix.bytes());
  const bool transposed = matrix.shape()[0] > matrix.shape()[1];
  const Count columns = x.shape()[1], stride = matrix.shape()[1];
  T* to = x.data<T>();
  const float* from = matrix.f32();
  const double* sum = squares.data<double>();
  ops::for_elements(
      exec, "cohort::muon_load", x.shape()[0], columns, KOKKOS_LAMBDA(Count i, Count j) {
        const float norm = static_cast<float>(std::sqrt(*sum)) + kLeastNorm;
        to[i * columns + j] = from_float<T>(from[transposed ? j * stride + i : i * stride + j] / norm);
      });
}

template <class T>
void store(const ops::Exec& exec, const Tensor& matrix, const Tensor& x) {
  note_traffic("copy", DType::f32, x.bytes() + matrix.bytes());
  const bool transposed = matrix.shape()[0] > matrix.shape()[1];
  const Count columns = matrix.shape()[1], stride = x.shape()[1];
  float* to = matrix.f32();
  const T* from = x.data<T>();
  ops::for_elements(
      exec, "cohort::muon_store", matrix.shape()[0], columns,
      KOKKOS_LAMBDA(Count i, Count j) { to[i * columns + j] = to_float(from[transposed ? j * stride + i : i * stride + j]); });
}

// x = a x + b y
template <class T>
void combine(const ops::Exec& exec, float a, const Tensor& x, float b, const Tensor& y) {
  note_traffic("add", x.dtype(), 3 * x.bytes());
  const Count columns = x.shape()[1];
  T* xs = x.data<T>();
  const T* ys = y.data<T>();
  ops::for_elements(
      exec, "cohort::muon_combine", x.shape()[0], columns, KOKKOS_LAMBDA(Count i, Count j) {
        const Count at = i * columns + j;
        xs[at] = from_float<T>(a * to_float(xs[at]) + b * to_float(ys[at]));
      });
}

}  // namespace

Bytes scratch_bytes(Count rows, Count columns, DeviceKind device) {
  const Count m = std::min(rows, columns), n = std::max(rows, columns);
  const Bytes each = size_of(dtype_on(device));
  return 2 * aligned(m * n * each) + 2 * aligned(m * m * each) + aligned(size_of(DType::f64));
}

void orthogonalize(const ops::Exec& exec, const Tensor& matrix, const Tensor& scratch, Count steps) {
  const Count m = std::min(matrix.shape()[0], matrix.shape()[1]), n = std::max(matrix.shape()[0], matrix.shape()[1]);
  const DType dtype = dtype_on(exec.device);
  Scratch memory(scratch);
  const Tensor x = memory.take({m, n}, dtype), product = memory.take({m, n}, dtype);
  const Tensor gram = memory.take({m, m}, dtype), squared = memory.take({m, m}, dtype);
  const Tensor squares = memory.take({1}, DType::f64);
  squares.zero();
  ops::sum_of_squares(exec, squares, matrix.reshaped({matrix.elements()}));
  with_storage_type(x, [&]<class T>(T) {
    load<T>(exec, x, matrix, squares);
    for (Count step = 0; step < steps; ++step) {
      ops::linear_forward(exec, gram, x, x);           // X X^T
      ops::linear_forward(exec, squared, gram, gram);  // its square: it is symmetric
      combine<T>(exec, kC, squared, kB, gram);
      ops::linear_backward_input(exec, product, squared, x);
      combine<T>(exec, kA, x, 1.0f, product);
    }
    store<T>(exec, matrix, x);
  });
}

}  // namespace cohort::muon
