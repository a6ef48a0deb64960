// The names in a token file, shared by its writer and its reader. The format itself is described in token_file.hpp.
#pragma once

#include <string>
#include <string_view>

#include "base/units.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort::token_format {

inline constexpr const char* kFormat = "cohort-tokens";
inline constexpr Count kVersion = 3;  // of files with a mask; others stay at 2, which older programs read
inline constexpr Count kVersionWithoutMask = 2;
inline constexpr Count kOldestVersion = 1;  // that is read
inline constexpr Count kBlock = 1 << 16;    // tokens that one checksum covers: 128 or 256 KiB
inline constexpr Count kSmallestSplit = 2;  // tokens: one input and its target

/// The narrowest type that holds every id.
inline hdf5::Element element_for(Count vocabulary_size) {
  return vocabulary_size <= 65536 ? hdf5::Element::u16 : hdf5::Element::u32;
}

/// The dataset of where a split's documents begin.
inline std::string documents_of(std::string_view split) { return "documents/" + std::string(split); }
/// The dataset of which tokens of a split count as targets.
inline std::string counted_of(std::string_view split) { return "counted/" + std::string(split); }
/// The dataset of a split's checksums.
inline std::string checksums_of(std::string_view split) { return "checksums/" + std::string(split); }

}  // namespace cohort::token_format
