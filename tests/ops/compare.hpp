// Comparing what an fp32 op wrote with its double-precision reference. Tensors lie, and ops run, on the device under test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "ops/exec.hpp"
#include "ops/values.hpp"
#include "support/test_device.hpp"
#include "tensor/convert.hpp"
#include "tensor/tensor.hpp"

namespace cohort::ops {

using test::test_device;

/// On the device under test; with COHORT_TEST_KERNELS=portable in the environment, by the portable kernels alone. So every test
/// of an op is one of each rung of its ladder (cohort_add_test: CUDA, PORTABLE).
inline Exec test_exec() {
  const char* kernels = std::getenv("COHORT_TEST_KERNELS");
  const bool portable = kernels != nullptr && std::string_view(kernels) == "portable";
  return {.device = test_device(), .kernels = portable ? Kernels::portable : Kernels::tuned};
}

/// The distance from 1 to the next fp32. One operation errs by at most half of it, relative to its result.
inline constexpr double kEps = 0x1.0p-23;

/// The error of a sum of n terms in fp32, relative to the sum of their sizes, in any order of summing. The worst case is n kEps /
/// 2, but rounding errors point both ways, which makes it grow as sqrt(n) (Higham & Mary 2019, "A new approach to probabilistic
/// rounding error analysis"). Four such deviations, and the few operations around the sum.
inline double sum_error(Count n) { return (4.0 + 2.0 * std::sqrt(static_cast<double>(n))) * kEps; }

/// Outputs that an op must overwrite are filled with it: any use of the old content shows.
inline constexpr float kGarbage = std::numeric_limits<float>::quiet_NaN();

inline Tensor filled(const Shape& shape, float value, DeviceKind device = test_device()) {
  const Tensor tensor = Tensor::zeros("test", shape);
  for (float& element : tensor.span<float>()) element = value;
  return tensor.to(device, "test");
}

inline Tensor tensor_of(Input values, const Shape& shape) {
  const Tensor tensor = Tensor::zeros("test", shape);
  COHORT_CHECK(tensor.elements() == static_cast<Count>(values.size()), "{} values for {}", values.size(), shape.str());
  for (std::size_t i = 0; i < values.size(); ++i) tensor.f32()[i] = static_cast<float>(values[i]);
  return tensor.to(test_device(), "test");
}

/// The values rounded to a floating-point type.
inline Tensor tensor_of_type(DType dtype, Input values, const Shape& shape) {
  Tensor fp32 = tensor_of(values, shape);
  if (dtype == DType::f32) return fp32;
  const Tensor tensor = Tensor::zeros("test", shape, dtype, test_device());
  convert(tensor, fp32);
  return tensor;
}

/// Of fp32, bf16 or fp16.
inline Array values_of(const Tensor& tensor) {
  const Tensor fp32 = to_host_fp32(tensor);
  const auto span = fp32.span<float>();
  return {span.begin(), span.end()};
}

/// One fp64 number, as ops keep the sum of a loss.
inline Tensor number_tensor(double value) {
  const Tensor tensor = Tensor::zeros("test", {1}, DType::f64);
  tensor.span<double>()[0] = value;
  return tensor.to(test_device(), "test");
}
inline double number_of(const Tensor& tensor) { return tensor.to_host().span<double>()[0]; }

/// Plain structs in a u8 tensor, and back.
template <class Struct>
Tensor bytes_of(const std::vector<Struct>& structs) {
  const Tensor tensor = Tensor::zeros("test", {static_cast<Count>(structs.size() * sizeof(Struct))}, DType::u8);
  std::memcpy(tensor.raw(), structs.data(), structs.size() * sizeof(Struct));
  return tensor.to(test_device(), "test");
}
template <class Struct>
std::vector<Struct> structs_of(const Tensor& tensor) {
  std::vector<Struct> structs(static_cast<std::size_t>(tensor.bytes()) / sizeof(Struct));
  const Tensor host = tensor.to_host();
  std::memcpy(structs.data(), host.raw(), structs.size() * sizeof(Struct));
  return structs;
}

/// Tokens, targets or slots where the op reads them; they live as long as the object.
template <class Index>
class Indices {
 public:
  Indices() = default;
  explicit Indices(const std::vector<Index>& values) : memory_(bytes_of(values)), size_(values.size()) {}
  std::span<const Index> span() const { return {static_cast<const Index*>(memory_.raw()), size_}; }

 private:
  Tensor memory_;
  std::size_t size_ = 0;
};

/// Whether |actual - expected| <= tolerance for each element; the message names the element that fails by the largest factor.
/// Anything that is not finite fails. `tolerance` holds one absolute error per element, or a single one for all.
inline ::testing::AssertionResult close(Input actual, Input expected, Input tolerance) {
  if (actual.size() != expected.size() || (tolerance.size() != 1 && tolerance.size() != expected.size())) {
    return ::testing::AssertionFailure() << actual.size() << " values, " << expected.size() << " expected, " << tolerance.size()
                                         << " tolerances";
  }
  double worst = 1.0;
  std::size_t where = 0;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double allowed = tolerance.size() == 1 ? tolerance[0] : tolerance[i];
    const double error = std::abs(actual[i] - expected[i]);
    if (error <= allowed) continue;  // false for NaN
    const double ratio = std::isfinite(error) ? error / allowed : std::numeric_limits<double>::infinity();
    if (bad++ == 0 || ratio > worst) {
      worst = ratio;
      where = i;
    }
  }
  if (bad == 0) return ::testing::AssertionSuccess();
  const double allowed = tolerance.size() == 1 ? tolerance[0] : tolerance[where];
  return ::testing::AssertionFailure() << bad << " of " << expected.size() << " elements are off; the worst is [" << where
                                       << "]: " << actual[where] << ", expected " << expected[where] << " +- " << allowed
                                       << " (error " << std::abs(actual[where] - expected[where]) << ")";
}

inline ::testing::AssertionResult close(const Tensor& actual, Input expected, Input tolerance) {
  return close(values_of(actual), expected, tolerance);
}
inline ::testing::AssertionResult close(const Tensor& actual, Input expected, double tolerance) {
  return close(values_of(actual), expected, Array{tolerance});
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor host_a = a.to_host(), host_b = b.to_host();
  return a.shape() == b.shape() && std::memcmp(host_a.raw(), host_b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

inline Tensor copy_of(const Tensor& tensor) {
  const Tensor copy = Tensor::zeros("test", tensor.shape(), tensor.dtype(), tensor.device());
  copy.copy_from(tensor);
  return copy;
}

/// Calls `op`, which returns what it wrote, twice: both times the same bits.
inline ::testing::AssertionResult repeats(const std::function<std::vector<Tensor>()>& op) {
  const std::vector<Tensor> first = op();
  const std::vector<Tensor> second = op();
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!same_bits(first[i], second[i]))
      return ::testing::AssertionFailure() << "output " << i << " has other bits the second time";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace cohort::ops
