// Where an op runs: the first argument of every op. On the CPU it is an instance of Kokkos's host execution space.
//
// Legend for the shapes in this folder:
//   B samples of a micro-batch   T tokens of a sample   R rows = B*T        C model width     F width of the feed-forward layer
//   NH query heads               NKV key/value heads    HS head size = C/NH  V vocabulary
//
// Held by every op: outputs that are activations (or their gradients) are overwritten; gradients of parameters are accumulated
// into. Ops never communicate and never allocate; scratch memory comes from the caller.
#pragma once

#include <Kokkos_Core.hpp>

namespace cohort::ops {

struct Exec {
  using Space = Kokkos::DefaultHostExecutionSpace;
  Space space{};
};

}  // namespace cohort::ops
