// What the checks of the bandwidth-bound kernels share: device memory that begins as NaN, numbers that are exact in the type
// under test, and a line of output for each comparison.
//
// Tolerances are absolute errors, one for each element, and made of two parts. Storing a result r in a type of p bits of
// significand errs by at most u |r|, u = 2^-p: 2^-24 for fp32, 2^-11 for fp16, 2^-8 for bf16. Computing it in fp32 errs by a few
// times kEps = 2^-23 times the sizes of the numbers that went into it, which each check states.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/random.hpp"
#include "ops/reference/array.hpp"

namespace cohort::ops::check {

using reference::Array;
using reference::Input;
using Tokens = std::vector<std::int32_t>;

inline int failures = 0;

inline constexpr double kEps = 0x1.0p-23;
/// The error of an fp32 sum of n terms in any order, relative to the sum of their sizes (see tests/ops/compare.hpp).
inline double sum_error(Count n) { return (4.0 + 2.0 * std::sqrt(static_cast<double>(n))) * kEps; }

inline const std::vector<DType> kTypes{DType::f32, DType::bf16, DType::f16};
inline const char* type_name(DType dtype) { return dtype == DType::f32 ? "fp32" : dtype == DType::bf16 ? "bf16" : "fp16"; }
inline Bytes bytes_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }
inline double unit_of(DType dtype) { return dtype == DType::f32 ? 0x1.0p-24 : dtype == DType::bf16 ? 0x1.0p-8 : 0x1.0p-11; }
/// Below this, elements of the type are multiples of a smallest number, and storing errs by up to half of it.
inline double least_of(DType dtype) { return dtype == DType::f16 ? 0x1.0p-25 : 1e-38; }

inline void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAIL %s: %s (%s)\n", what, cudaGetErrorString(status), cudaGetErrorName(status));
  std::exit(2);
}

/// Device memory, all bits set: NaN in every floating-point type, so that what a kernel leaves unwritten shows. `shift` elements
/// of the allocation lie before data(): for addresses that are not aligned to 16 bytes.
class Buffer {
 public:
  explicit Buffer(Bytes bytes, Bytes shift_bytes = 0) : bytes_(bytes), shift_bytes_(shift_bytes) {
    must(cudaMalloc(&memory_, static_cast<std::size_t>(bytes + shift_bytes + 16)), "cudaMalloc");
    must(cudaMemset(memory_, 0xff, static_cast<std::size_t>(bytes + shift_bytes + 16)), "cudaMemset");
  }
  Buffer(Buffer&& other) noexcept : memory_(other.memory_), bytes_(other.bytes_), shift_bytes_(other.shift_bytes_) {
    other.memory_ = nullptr;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(memory_); }

  void* data() const { return static_cast<char*>(memory_) + shift_bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  Bytes bytes() const { return bytes_; }

  void write(const void* from) {
    must(cudaMemcpy(data(), from, static_cast<std::size_t>(bytes_), cudaMemcpyHostToDevice), "upload");
  }
  /// Waits for all kernels first, and stops the program if one failed.
  std::vector<std::uint8_t> read() const {
    must(cudaGetLastError(), "launching a kernel");
    must(cudaDeviceSynchronize(), "running a kernel");
    std::vector<std::uint8_t> result(static_cast<std::size_t>(bytes_));
    must(cudaMemcpy(result.data(), data(), result.size(), cudaMemcpyDeviceToHost), "download");
    return result;
  }

 private:
  void* memory_ = nullptr;
  Bytes bytes_;
  Bytes shift_bytes_;
};

inline std::vector<std::uint8_t> encode(DType dtype, Input values) {
  std::vector<std::uint8_t> result(values.size() * static_cast<std::size_t>(bytes_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    const std::uint16_t narrow = dtype == DType::bf16  ? to_bf16(value).bits
                                 : dtype == DType::f16 ? to_f16(value).bits
                                                       : std::uint16_t{0};
    if (dtype == DType::f32) {
      std::memcpy(&result[4 * i], &value, 4);
    } else {
      std::memcpy(&result[2 * i], &narrow, 2);
    }
  }
  return result;
}

inline Array decode(DType dtype, const std::vector<std::uint8_t>& bytes) {
  Array result(bytes.size() / static_cast<std::size_t>(bytes_of(dtype)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    float value = 0.0f;
    std::uint16_t narrow = 0;
    if (dtype == DType::f32) {
      std::memcpy(&value, &bytes[4 * i], 4);
    } else {
      std::memcpy(&narrow, &bytes[2 * i], 2);
      value = dtype == DType::bf16 ? to_float(bf16{narrow}) : to_float(f16{narrow});
    }
    result[i] = static_cast<double>(value);
  }
  return result;
}

/// Normal numbers around `shift`, rounded to the type. `stream` tells the arrays of a check apart.
inline Array random_values(DType dtype, Count elements, std::uint32_t stream, double scale = 1.0, double shift = 0.0) {
  const CounterRandom random(2024, RandomPurpose::test, 7, stream);
  Array values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto four = random.normals(i / 4);
    for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j) values[j] = shift + scale * static_cast<double>(four[j - i]);
  }
  return decode(dtype, encode(dtype, values));
}

inline Buffer upload(DType dtype, Input values, Count shift = 0) {
  Buffer buffer(static_cast<Bytes>(values.size()) * bytes_of(dtype), shift * bytes_of(dtype));
  buffer.write(encode(dtype, values).data());
  return buffer;
}
template <class T>
Buffer upload(const std::vector<T>& values) {
  Buffer buffer(static_cast<Bytes>(values.size() * sizeof(T)));
  buffer.write(values.data());
  return buffer;
}
inline Buffer poison(DType dtype, Count elements, Count shift = 0) {
  return Buffer(elements * bytes_of(dtype), shift * bytes_of(dtype));
}
inline Array download(DType dtype, const Buffer& buffer) { return decode(dtype, buffer.read()); }
inline double download_double(const Buffer& buffer) {
  double value = 0.0;
  std::memcpy(&value, buffer.read().data(), sizeof value);
  return value;
}

inline void report(bool passed, const std::string& name, const std::string& detail) {
  if (!passed) ++failures;
  std::printf("%s %s: %s\n", passed ? "PASS" : "FAIL", name.c_str(), detail.c_str());
}

/// |actual - expected| <= allowed(i) for each element; anything that is not finite fails.
inline void compare(const std::string& name, Input actual, Input expected, const std::function<double(std::size_t)>& allowed) {
  double worst = 0.0;  // in units of what is allowed
  std::size_t where = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    const double ratio = error == 0.0 ? 0.0 : std::isfinite(error) ? error / allowed(i) : INFINITY;
    if (!(ratio <= worst)) {
      worst = ratio;
      where = i;
    }
  }
  char detail[200] = "";
  if (!expected.empty()) {
    std::snprintf(detail, sizeof detail, "largest error %.2e of %.2e allowed, at [%zu] (%.6g, expected %.6g)",
                  std::abs(actual[where] - expected[where]), allowed(where), where, actual[where], expected[where]);
  }
  report(actual.size() == expected.size() && worst <= 1.0, name, detail);
}

/// Rounding to the type, and `computed` for what went before.
inline auto stored(DType dtype, const Array& expected, std::function<double(std::size_t)> computed) {
  return [=, &expected](std::size_t i) { return unit_of(dtype) * std::abs(expected[i]) + least_of(dtype) + computed(i); };
}

/// The bytes of each array that an op wrote.
using Outputs = std::vector<std::vector<std::uint8_t>>;

/// Calls `run`, which returns what it wrote, twice: both times the same bits.
inline void repeats(const std::string& name, const std::function<Outputs()>& run) {
  const bool same = run() == run();
  report(same, name, same ? "the same bits twice" : "other bits the second time");
}

template <class... Parts>
std::string text(const char* format, Parts... parts) {
  char buffer[200];
  std::snprintf(buffer, sizeof buffer, format, parts...);
  return buffer;
}

// One for each family of kernels.
void check_norms();
void check_pointwise();
void check_rope();
void check_cross_entropy();
void check_embedding();
void check_adamw();
void time_kernels();

}  // namespace cohort::ops::check
