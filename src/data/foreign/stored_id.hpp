// How a token id is stored in a file of another program: little-endian.
#pragma once

#include "base/units.hpp"

namespace cohort {

struct StoredId {
  Bytes bytes = 2;
  bool is_signed = false;
};

}  // namespace cohort
