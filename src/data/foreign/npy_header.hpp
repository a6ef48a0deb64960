// The header of NumPy's .npy files, versions 1 to 3.
#pragma once

#include <string_view>

#include "base/units.hpp"
#include "data/foreign/stored_id.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  StoredId stored;
  Bytes bytes = 0;  // of the header
  Count elements = 0;
};

/// Throws Error(data): truncated, no array of integers, big-endian or in Fortran's order.
NpyHeader read_npy_header(const StoredBytes& file);

}  // namespace cohort
