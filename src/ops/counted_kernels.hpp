// The kernels of a thread that counts and writes a tape (base/work_tape.hpp): they do nothing, and note what the op would do.
#pragma once

#include "ops/tuned.hpp"

namespace cohort::ops {

/// Those of the ops that the tuned table has for the device, so that what is one kernel there is one entry of the tape: ops that
/// the table leaves to others there (on a CPU a product and its GELU) note these.
const TunedKernels& counted_kernels(const Exec& exec);

}  // namespace cohort::ops
