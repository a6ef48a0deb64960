// The header of a safetensors file (github.com/huggingface/safetensors, section "Format"):
//
//   8 bytes      n, the length of the header: unsigned, little-endian
//   n bytes      JSON, first byte '{', filled up with spaces: for each tensor
//                  "NAME": {"dtype": "F32", "shape": [4, 12], "data_offsets": [BEGIN, END]}
//                and, if wanted, "__metadata__": {"KEY": "VALUE", ...}
//   the rest     data: row-major little-endian elements; BEGIN and END count from its start; no gaps, no overlaps
//
// The parser takes files from strangers: nothing in the header is believed before it was checked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/shape.hpp"
#include "base/units.hpp"

namespace cohort {

/// Larger headers are refused, as the format's own library does.
inline constexpr Bytes kMaxSafetensorsHeader = 100'000'000;
/// More tensors in one file are refused; the largest public models have a hundred thousand in all their files.
inline constexpr std::size_t kMaxSafetensorsTensors = 250'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // the format's name: "F32", "BF16", "I64", ...
  Shape shape;
  Bytes begin = 0, end = 0;  // in the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the data
  std::map<std::string, std::string> metadata;
};

/// The floating-point types that weights come in: F32, F16, BF16, F64; nothing for the format's other types.
std::optional<DType> dtype_of_safetensors(std::string_view name);
/// "F32" for fp32, "BF16", "F16".
std::string_view safetensors_name_of(DType dtype);

/// Parses the n bytes of JSON of a file with `data_bytes` bytes of data, at most kMaxSafetensorsTensors tensors. Every tensor's
/// size fits its shape and type, and the tensors cover the data exactly. Errors (checkpoint) name `file` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, Bytes data_bytes, const std::string& file);

/// Length and JSON of a file with these entries; a multiple of 8 bytes, so that data begin aligned.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace cohort
