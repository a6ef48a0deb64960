// Space on the disk for what is written later.
#pragma once

#include <sys/types.h>

namespace cohort::hdf5 {

/// Reserves room for all that an open file has, `size` bytes, and for `more` behind it, without making the file longer. Returns
/// errno, 0 also where the file system cannot promise it.
int reserve(int descriptor, off_t size, off_t more);

}  // namespace cohort::hdf5
