// Counting: a thread runs a step to learn what it takes and what it sends, without doing it. The step's own code runs,
// strategies, layers and optimizer alike, so that what is learnt cannot differ from what a run does; what it stands on does
// nothing:
//
//   tensors (tensor/tensor.cpp)          have shapes and addresses; only small ones have memory, all others are but accounted for
//   kernels (ops/parallel.hpp and its neighbours, tensor/spaces.hpp)   are not launched
//   copies, streams, events (gpu/)       do nothing, and no device need be there
//   groups (comm/counting_communicator)  send nothing, and tell their observer what they were asked for
//   scratch files (base/scratch_file)    are not made
//
// Each of these asks counting() where it would do its work; who builds on them (a strategy, a layer, an optimizer) asks nobody.
// What counts must not look at what a large tensor holds: its address belongs to no memory, and reading it ends the process.
// tensor/counting_scope.hpp turns it on.
#pragma once

namespace cohort {

namespace detail {
inline thread_local bool counting_thread = false;
}

/// Whether this thread counts.
inline bool counting() { return detail::counting_thread; }

}  // namespace cohort
