// Writing safetensors: one file, or several and an index, as Hugging Face's save_pretrained names and divides them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

struct SafetensorsOptions {
  DType dtype = DType::f32;                       // fp32, bf16 or fp16; 16 bits: rounded to nearest, ties to even
  Bytes shard_bytes = 5'000'000'000;              // of data in one file; a larger tensor has a file of its own
  std::map<std::string, std::string> metadata{};  // of each file
};

/// "5GB" -> 5000000000: decimal units as Hugging Face has them (KB, MB, GB), or those of parse_bytes(). Throws Error(usage) on
/// anything else, 0 included.
Bytes parse_shard_size(std::string_view text);

/// Writes model.safetensors, or model-00001-of-0000N.safetensors and model.safetensors.index.json, into a folder that exists, and
/// returns the names of the files. Each is complete or not there; the index comes last. Errors: io (disk), checkpoint (from the
/// source, or a weight that is too large for the type, which is named).
std::vector<std::string> write_safetensors(const std::filesystem::path& folder, const TensorSource& source,
                                           const SafetensorsOptions& options);

}  // namespace cohort
