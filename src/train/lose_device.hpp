// A GPU that fails: for faults that were asked for.
#pragma once

namespace cohort {

/// Starts a kernel that writes to an address that is not its own. The error sticks to the process's GPU context, as after a
/// hardware error: from now on each call to the device fails. Needs an open GPU.
void lose_device();

}  // namespace cohort
