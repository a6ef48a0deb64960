// Three all-reduces written from send and receive, for the course: how a sum over all ranks can be made, and what each way costs.
//
// Cost model: a message of N bytes takes alpha + N beta seconds (alpha: latency; beta: seconds per byte, the inverse of
// bandwidth); a rank handles one message in each direction at a time; adding takes gamma seconds per byte. For n ranks and N
// bytes:
//
//   naive  2 (n-1) (alpha + N beta)               + (n-1) N gamma      all work is rank 0's; the others wait
//   tree   2 ceil(log2 n) (alpha + N beta)        + ceil(log2 n) N gamma      fewest steps: best for short messages
//   ring   2 (n-1) alpha + 2 (n-1)/n N beta       + (n-1)/n N gamma    every link is busy all the time: best for long messages
//
// The ring's 2 (n-1)/n N bytes per rank are the least that any all-reduce can do with. Sources: Thakur, Rabenseifner, Gropp,
// "Optimization of Collective Communication Operations in MPICH", Int. J. High Performance Computing Applications 19(1), 2005,
// sections 3 and 4.5 (trees and costs); Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations",
// J. Parallel and Distributed Computing 69(2), 2009 (the ring and the bound).
//
// Each function: data[i] <- sum over ranks of data[i], in place, any count (0 too), any number of ranks. All ranks get the same
// bits; the three differ from each other in rounding, since they add in different orders. Uses tag kMaxTag.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "comm/communicator.hpp"

namespace cohort {

/// Everyone sends to rank 0, which adds in rank order and sends the sum back. // Collective over: comm
void naive_all_reduce(Communicator& comm, std::span<float> data);

/// A binomial tree adds towards rank 0, the same tree carries the sum back. // Collective over: comm
void tree_all_reduce(Communicator& comm, std::span<float> data);

/// Reduce-scatter, then all-gather, of n blocks around a ring. // Collective over: comm
void ring_all_reduce(Communicator& comm, std::span<float> data);

/// For choosing one by name; `library` ("mpi") is the communicator's own all_reduce. `own` ("yours"), of somebody else, such as a
/// learner, is not chosen so, and run_all_reduce() does not know it.
enum class AllReduceAlgorithm { library, naive, tree, ring, own };

inline constexpr std::array<AllReduceAlgorithm, 4> kAllReduceAlgorithms{AllReduceAlgorithm::library, AllReduceAlgorithm::naive,
                                                                        AllReduceAlgorithm::tree, AllReduceAlgorithm::ring};

/// "mpi", "naive", "tree", "ring".
std::string_view name_of(AllReduceAlgorithm algorithm);
/// The inverse; throws Error(usage) naming the known names.
AllReduceAlgorithm all_reduce_algorithm_from_name(std::string_view name);

// Collective over: comm
void run_all_reduce(AllReduceAlgorithm algorithm, Communicator& comm, std::span<float> data);

}  // namespace cohort
