// The header of llm.c's token files: 256 int32, little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {

inline constexpr Bytes kLlmcHeaderBytes = 1024;

struct LlmcHeader {
  Bytes id_bytes = 2;
  Count tokens = 0;
};

bool is_llmc(std::string_view start);
/// Throws Error(data): another magic number or version, truncated.
LlmcHeader read_llmc_header(const StoredBytes& file);
/// The header's bytes. Throws Error(data) for more tokens than it can say, 2^31 - 1.
std::string llmc_header(const LlmcHeader& header, std::string_view file);

}  // namespace cohort
