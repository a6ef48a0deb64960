// Values for the communicator tests: small whole numbers, exact in every element type, as are their sums over a few ranks; so
// that results are compared for equality.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/dtype.hpp"

namespace cohort::test {

template <class T>
double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return to_float(value);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, f16>) {
    return to_f16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Element i of `rank`: different between neighbours and between ranks; of both signs where the type has them. At most 30 in
/// size.
template <class T>
double test_value(int rank, Count i) {
  const auto value = static_cast<double>((i * 7 + rank * 11 + i / 29) % 29 + rank % 2);
  return std::is_same_v<T, std::uint8_t> ? value : value - 14.0;
}

template <class T>
std::vector<T> test_values(int rank, Count count, Count first = 0) {
  std::vector<T> values;
  for (Count i = first; i < first + count; ++i) values.push_back(from_double<T>(test_value<T>(rank, i)));
  return values;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(to_double(value));
  return result;
}

/// Calls body.template operator()<T>() for each element type.
template <class Body>
void for_each_type(const Body& body) {
  body.template operator()<float>();
  body.template operator()<double>();
  body.template operator()<bf16>();
  body.template operator()<f16>();
  body.template operator()<std::int32_t>();
  body.template operator()<std::int64_t>();
  body.template operator()<std::uint8_t>();
}

}  // namespace cohort::test
