// Where an op runs: the first argument of every op. The loops that use it are in ops/parallel.hpp; this header stays free of
// Kokkos's, so that what only calls ops compiles fast.
//
// Legend for the shapes in this folder:
//   B samples of a micro-batch   T tokens of a sample   R rows = B*T        C model width     F width of the feed-forward layer
//   NH query heads               NKV key/value heads    HS head size = C/NH  V vocabulary
//
// Held by every op: outputs that are activations (or their gradients) are overwritten; gradients of parameters are accumulated
// into. Ops never communicate and never allocate; scratch memory comes from the caller.
#pragma once

namespace cohort::ops {

/// The CPU: Kokkos's default host execution space.
struct Exec {};

}  // namespace cohort::ops
