// What matrix products of a CPU reach: the ceiling that other figures are compared with.
#pragma once

namespace cohort {

/// The rate of large square products of one rank by the library (ops/gemm.hpp), in GFLOP/s: the best of several, since other work
/// on the machine only slows them. Takes about a second on a slow core.
double gemm_gflops_of_cpu();

}  // namespace cohort
