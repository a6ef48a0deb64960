// The end of a process that failed. Only main calls end_with_error(): after the action's objects are gone, while MPI may be up
// still.
//
// Who prints: an error that all ranks share is printed once, by rank 0; an error of one rank is printed by that rank, whichever
// it is, with its number and host. The line is written before MPI is ended, in one system call, so that it is neither lost nor
// mixed up.
#pragma once

#include <exception>
#include <string_view>

#include "base/error.hpp"

namespace cohort {

/// Whether this process speaks for the job: rank 0 of those that MPI has joined. Where it has not, each task is alone for MPI,
/// and the launcher's number decides, if a launcher has started this process: its variables can be left over in a shell.
bool is_printing_rank() noexcept;

/// Writes "cohort: TEXT" and a newline to stderr, after all that was printed to stdout before.
void print_error_line(std::string_view text) noexcept;

/// Prints the error, adds it to this rank's log if there is one, and returns the exit code for main to return. A SharedError, and
/// any error of a single rank, ends MPI in order. Any other error while MPI is up calls MPI_Abort with that code and does not
/// return: the other ranks are waiting for this one.
int end_with_error(const Error& error) noexcept;
/// The same for an exception that is not a cohort::Error, as as_error() of base/exception.hpp takes it.
int end_with_exception(const std::exception& error) noexcept;

/// Ends all ranks from a thread that is not main, whatever the others are doing: MPI_Abort, and if that does not end this process
/// within some seconds, the process ends itself, and its launcher the others.
[[noreturn]] void end_job_now(ExitCode code) noexcept;

}  // namespace cohort
