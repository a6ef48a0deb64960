// The element types of datasets.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort::hdf5 {

/// What the elements of a dataset are, in the file (little-endian) and in memory. f16 is what h5py calls float16; bf16 is a
/// custom 16-bit float (8 exponent, 7 mantissa bits) that HDF5's tools understand.
enum class Element : std::uint8_t { u8, u16, u32, u64, i32, i64, f16, bf16, f32, f64 };

std::string_view name_of(Element element);  // "uint8", "float32", ...
Bytes size_of(Element element);
Element element_of(DType dtype);
/// Throws Error(internal) for the elements that no tensor has (u16, u32, u64).
DType dtype_of(Element element);

template <class T>
struct ElementOf;
#define COHORT_HDF5_ELEMENT(type, element)             \
  template <>                                          \
  struct ElementOf<type> {                             \
    static constexpr Element value = Element::element; \
  }
COHORT_HDF5_ELEMENT(std::uint8_t, u8);
COHORT_HDF5_ELEMENT(std::uint16_t, u16);
COHORT_HDF5_ELEMENT(std::uint32_t, u32);
COHORT_HDF5_ELEMENT(std::uint64_t, u64);
COHORT_HDF5_ELEMENT(std::int32_t, i32);
COHORT_HDF5_ELEMENT(std::int64_t, i64);
COHORT_HDF5_ELEMENT(f16, f16);
COHORT_HDF5_ELEMENT(bf16, bf16);
COHORT_HDF5_ELEMENT(float, f32);
COHORT_HDF5_ELEMENT(double, f64);
#undef COHORT_HDF5_ELEMENT

}  // namespace cohort::hdf5
