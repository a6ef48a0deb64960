// How fast a folder's disk is, and whether it can be written at all.
#pragma once

#include <string>

#include "preflight/measurements.hpp"

namespace cohort::preflight {

/// Writes a scratch file of up to `bytes` in `folder`, flushes it to the disk, reads it back past the page cache where the kernel
/// lets it, and removes it. Ends early where the disk is slow: after `seconds` of writing, and again of reading. Problems are
/// told in the result, not thrown. `name` tells the files of several processes apart.
Disk measure_disk(const std::string& folder, const std::string& name, Bytes bytes, double seconds);

}  // namespace cohort::preflight
