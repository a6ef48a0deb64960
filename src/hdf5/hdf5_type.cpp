#include <array>

#include "hdf5/hdf5_internal.hpp"

namespace cohort::hdf5 {
namespace {

struct ElementInfo {
  Element element;
  Bytes size;
  std::string_view name;
};

// In the order of the enumeration.
constexpr std::array<ElementInfo, 10> kElements{{{Element::u8, 1, "uint8"},
                                                 {Element::u16, 2, "uint16"},
                                                 {Element::u32, 4, "uint32"},
                                                 {Element::u64, 8, "uint64"},
                                                 {Element::i32, 4, "int32"},
                                                 {Element::i64, 8, "int64"},
                                                 {Element::f16, 2, "float16"},
                                                 {Element::bf16, 2, "bfloat16"},
                                                 {Element::f32, 4, "float32"},
                                                 {Element::f64, 8, "float64"}}};

hid_t standard_type(Element element) {
  switch (element) {
    case Element::u8:
      return H5T_STD_U8LE;
    case Element::u16:
      return H5T_STD_U16LE;
    case Element::u32:
      return H5T_STD_U32LE;
    case Element::u64:
      return H5T_STD_U64LE;
    case Element::i32:
      return H5T_STD_I32LE;
    case Element::i64:
      return H5T_STD_I64LE;
    case Element::f64:
      return H5T_IEEE_F64LE;
    case Element::f16:
    case Element::bf16:
    case Element::f32:
      return H5T_IEEE_F32LE;
  }
  return H5I_INVALID_HID;
}

// A 16-bit float: sign in bit 15, then the exponent, then the mantissa. Fields first, then the size: HDF5 refuses a size that the
// fields would not fit.
bool shrink_float(hid_t type, std::size_t exponent_bits, std::size_t bias) {
  const std::size_t mantissa_bits = 15 - exponent_bits;
  return H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits) >= 0 && H5Tset_size(type, 2) >= 0 &&
         H5Tset_ebias(type, bias) >= 0;
}

}  // namespace

std::string_view name_of(Element element) { return kElements[static_cast<std::size_t>(element)].name; }
Bytes size_of(Element element) { return kElements[static_cast<std::size_t>(element)].size; }

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Element::f32;
    case DType::bf16:
      return Element::bf16;
    case DType::f16:
      return Element::f16;
    case DType::f64:
      return Element::f64;
    case DType::i32:
      return Element::i32;
    case DType::i64:
      return Element::i64;
    case DType::u8:
      return Element::u8;
  }
  fail(ExitCode::internal, "element type {} has no HDF5 type", static_cast<int>(dtype));
}

DType dtype_of(Element element) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    if (element_of(dtype) == element) return dtype;
  }
  fail(ExitCode::internal, "no tensor has elements of HDF5 type {}", name_of(element));
}

Handle make_type(Element element) {
  Handle type(Handle::Kind::datatype, H5Tcopy(standard_type(element)));
  const bool ok = type.id() >= 0 && (element != Element::f16 || shrink_float(type.id(), 5, 15)) &&
                  (element != Element::bf16 || shrink_float(type.id(), 8, 127));
  COHORT_CHECK(ok, "HDF5 cannot make the type {}: {}", name_of(element), take_reason());
  return type;
}

bool find_element(hid_t type, Element& element) {
  for (const ElementInfo& candidate : kElements) {
    const Handle known = make_type(candidate.element);
    if (H5Tequal(type, known.id()) > 0) {
      element = candidate.element;
      return true;
    }
  }
  return false;
}

}  // namespace cohort::hdf5
