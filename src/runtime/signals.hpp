// SIGINT, SIGTERM and SIGUSR1 ask for a graceful stop: the training loop looks at stop_requested() at each step boundary, agrees
// with the other ranks, saves and ends. Only the flag is set in the handler. A second SIGINT (Ctrl-C twice) ends the process at
// once.
//
// Who gets the signal: Slurm's `--signal=USR1@120` signals every task of the steps, `--signal=B:USR1@120` only the batch shell;
// scancel sends SIGTERM and, KillWait seconds later, SIGKILL; mpirun passes SIGTERM, SIGUSR1 on and turns Ctrl-C into SIGTERM,
// soon followed by SIGKILL. Ranks see it at different steps or not at all: agree before acting.
#pragma once

#include <string_view>

namespace cohort {

/// Installs the handlers; later calls change nothing. Throws Error(internal) if the kernel refuses.
void install_stop_signals();

/// From here on a write to a pipe that nobody reads is an error (EPIPE) instead of the end of the process. Programs that this one
/// starts are not affected.
void outlive_broken_pipes();

/// Whether a stop signal has come since install_stop_signals() or clear_stop_request().
bool stop_requested() noexcept;
/// The first such signal, or 0.
int stop_signal() noexcept;
/// "SIGTERM".
std::string_view signal_name(int signal) noexcept;
/// For a second training in one process, and for tests.
void clear_stop_request() noexcept;

}  // namespace cohort
