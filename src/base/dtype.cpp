#include "base/dtype.hpp"

#include <array>

#include "base/error.hpp"

namespace cohort {
namespace {

struct DTypeInfo {
  DType dtype;
  Bytes size;
  std::string_view name;
  bool floating;
};

// In the order of the enumeration.
constexpr std::array<DTypeInfo, 7> kDTypes{{{DType::f32, 4, "fp32", true},
                                            {DType::bf16, 2, "bf16", true},
                                            {DType::f16, 2, "fp16", true},
                                            {DType::f64, 8, "fp64", true},
                                            {DType::i32, 4, "int32", false},
                                            {DType::i64, 8, "int64", false},
                                            {DType::u8, 1, "uint8", false}}};

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

Bytes size_of(DType dtype) { return info(dtype).size; }
std::string_view name_of(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return info(dtype).floating; }

DType dtype_from_name(std::string_view name) {
  for (const DTypeInfo& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  fail(ExitCode::config, "unknown element type '{}'; choose fp32, bf16, fp16, fp64, int32, int64 or uint8", name);
}

}  // namespace cohort
