// Megatron-LM's FILE.idx: what the sequences of FILE.bin are.
//   "MMIDIDX" and two zero bytes · version 1 (uint64) · type of the ids (uint8) · number of sequences S, of document entries D
//   (uint64) length of each sequence (S int32) · its first byte in FILE.bin (S int64) · first sequence of each document, and S (D
//   int64)
// Ids of several modes carry S more bytes at the end, which are left alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/foreign/stored_id.hpp"

namespace cohort {

struct MegatronIndex {
  StoredId stored;
  Count tokens = 0;
  std::vector<std::uint64_t> documents{};  // the token at which each begins, ascending from 0; empty documents are left out
};

/// Throws Error(io); Error(data) with file and byte: not such a file, truncated, sequences that do not lie one behind the other,
/// documents that do not ascend.
MegatronIndex read_megatron_index(const std::string& path);

}  // namespace cohort
