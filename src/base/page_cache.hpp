// The kernel's copies of files in memory.
#pragma once

namespace cohort {

/// What is read from this open file from now on comes from the disk, as far as the system can be asked for that.
void forget_cached(int descriptor);

}  // namespace cohort
