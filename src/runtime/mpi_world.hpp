// The few MPI calls of bring-up and tear-down, on MPI_COMM_WORLD. Training communicates through comm/communicator.hpp instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "runtime/launcher_check.hpp"

namespace cohort {

/// Throws Error(launch) with MPI's own text if `code` is not MPI_SUCCESS. `call` names the MPI function.
void check_mpi(int code, std::string_view call);

/// MPI_Init_thread, asking for MPI_THREAD_MULTIPLE; throws Error(launch) if MPI gives less than MPI_THREAD_SERIALIZED. Errors of
/// later calls are returned, not fatal. False if MPI was up already: then whoever started it also ends it. // Collective over:
/// world
bool init_mpi();
// Collective over: world
void finalize_mpi();
/// True between init_mpi() and finalize_mpi().
bool mpi_is_live() noexcept;
/// Ends all ranks at once with `code`. Not collective.
[[noreturn]] void abort_mpi(ExitCode code) noexcept;

// Collective over: world
MpiFacts mpi_facts();

/// If any rank has a problem, all throw SharedError with that of the lowest such rank. // Collective over: world
void agree_on_problem(const std::optional<Error>& own);

/// Every rank's text, in rank order, on rank 0; empty on the others. // Collective over: world
std::vector<std::string> gather_text(const std::string& text);

/// The text of rank 0, on all ranks. // Collective over: world
std::string broadcast_text_of_rank_0(std::string text);

/// "Open MPI v4.1.4, ...": one line. May be called before MPI_Init.
std::string mpi_library_version();
/// Whether this MPI needs PMIx from srun.
bool mpi_is_open_mpi() noexcept;

}  // namespace cohort
