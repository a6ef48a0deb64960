#include "runtime/failure_exit.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

#include "base/exception.hpp"
#include "observe/log.hpp"
#include "runtime/kokkos.hpp"
#include "runtime/mpi_world.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

// "rank 3 of 4 on node1: ", or nothing for a single process.
std::string speaker() {
  const ProcessIdentity self = process_identity();
  if (self.size == 1 || !self.rank) return {};
  return fmt::format("rank {} of {} on {}: ", *self.rank, self.size, self.host);
}

// mpirun kills all processes when the first one exits with an error, so where no MPI_Finalize holds the silent ranks back, they
// let rank 0 speak first. The wait is an upper limit: when rank 0 has spoken it exits, and the launcher ends the others.
constexpr std::chrono::seconds kSilentWait{2};
constexpr std::chrono::seconds kAbortWait{3};

void end_in_order() noexcept {
  try {
    stop_kokkos();
    if (mpi_is_live()) finalize_mpi();
  } catch (const std::exception& error) {
    print_error_line(error.what());
  }
}

}  // namespace

bool is_printing_rank() noexcept {
  try {
    if (const ProcessIdentity self = process_identity(); self.joined) return self.rank == 0;
    // Alone, for all that MPI knows. Variables that were left in a shell name a rank, but there is no other that would speak.
    return launcher_rank_now().value_or(0) == 0 || !is_child_of_launcher();
  } catch (const std::exception&) {
    return true;  // rather twice than never
  }
}

void print_error_line(std::string_view text) noexcept {
  try {
    std::cout.flush();
    std::fflush(stdout);
    const std::string line = fmt::format("cohort: {}\n", text);
    for (std::size_t written = 0; written < line.size();) {
      const ssize_t count = write(STDERR_FILENO, line.data() + written, line.size() - written);
      if (count < 0 && errno != EINTR) return;  // stderr is closed: nobody is left to tell
      if (count > 0) written += static_cast<std::size_t>(count);
    }
  } catch (const std::exception&) {  // no memory for the line
  }
}

int end_with_error(const Error& error) noexcept {
  const int code = static_cast<int>(error.code());
  try {
    // A mistake on the command line is the same on every rank, which all found it before MPI was up.
    const bool shared =
        dynamic_cast<const SharedError*>(&error) != nullptr || (error.code() == ExitCode::usage && !mpi_is_live());
    log_error(error.what());
    if (!shared) {
      print_error_line(speaker() + error.what());
    } else if (is_printing_rank()) {
      print_error_line(error.what());
    } else if (!mpi_is_live() || process_identity().size == 1) {
      std::this_thread::sleep_for(kSilentWait);
    }
    if (!mpi_is_live()) return code;
    if (!shared && process_identity().size > 1) abort_mpi(error.code());
  } catch (const std::exception&) {  // no memory to say more
    if (mpi_is_live()) abort_mpi(error.code());
  }
  end_in_order();
  return code;
}

int end_with_exception(const std::exception& error) noexcept { return end_with_error(as_error(error)); }

void end_job_now(ExitCode code) noexcept {
  try {
    std::thread([code] {
      if (mpi_is_live()) abort_mpi(code);
    }).detach();
    std::this_thread::sleep_for(kAbortWait);
  } catch (const std::exception&) {  // no thread to be had
  }
  _exit(static_cast<int>(code));
}

}  // namespace cohort
