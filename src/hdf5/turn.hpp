// Turns in HDF5. The library keeps global state (identifiers, caches, the error stack) and is not thread-safe in the builds that
// distributions ship: one lock of the process guards every call. Internal to this folder.
//
// The lock is fair: who waits longest is next. A plain mutex lets the thread that gives it up and takes it again at once (a long
// write, slab by slab) win every time, and the others wait until the whole write is over.
#pragma once

namespace cohort::hdf5 {

/// Holds the lock while it lives. The same thread may nest turns.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

}  // namespace cohort::hdf5
