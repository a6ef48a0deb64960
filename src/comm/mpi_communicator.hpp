// The MPI backend. Each communicator owns a duplicate of its MPI communicator, so that its messages never meet those of another
// library, and turns the errors that MPI returns into cohort::Error.
//
// Every operation is an MPI non-blocking one, the blocking forms wait for it: a sum has the same bits in both forms. Open MPI
// runs these in software, progressed only by MPI calls: who overlaps them with computation calls test() now and then.
// Reductions: Open MPI's in-place MPI_Iallreduce is a binomial tree to rank 0 and a broadcast, so an element's sum depends
// neither on its place in the buffer nor on how the buffer is cut into calls (tests/comm holds it to that).
#pragma once

#include <limits>
#include <memory>

#include "comm/communicator.hpp"

namespace cohort {

struct MpiOptions {
  /// MPI counts are ints: larger operations are cut into calls of at most this many elements (all-gather and reduce-scatter: of
  /// all ranks' blocks together, one element of each at least). Tests set small limits to exercise the cutting. At least 1.
  Count max_elements_per_call = std::numeric_limits<int>::max();
};

/// The group of all ranks of the job, "world". MPI must be up, and must still be up when the last of its groups and requests is
/// destroyed. Collective over: MPI_COMM_WORLD
std::unique_ptr<Communicator> make_world_communicator(const MpiOptions& options = {});

/// The MPI communicator of a group, for libraries that take one (MPI-IO): points to an MPI_Comm, which this header need not know.
/// Valid as long as `comm`; messages of one's own on it would meet the group's. A group of backend "self" gives MPI_COMM_SELF.
/// Throws Error(internal) for backends other than mpi and self.
const void* mpi_handle(const Communicator& comm);

/// Whether several threads of this process may communicate at the same time (MPI_THREAD_MULTIPLE).
bool all_threads_may_communicate();

}  // namespace cohort
