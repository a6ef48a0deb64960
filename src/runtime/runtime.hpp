// Bring-up and tear-down: one Runtime lives in the action of a command that runs on all ranks. Its constructor reads the
// launcher's claims, starts MPI and compares the two; open_device() starts Kokkos and the GPU; the destructor ends all in
// reverse.
//
// When an exception unwinds the destructor, MPI is left up on purpose: MPI_Finalize would wait for ranks that are still working.
// main catches the exception and calls end_with_error() of runtime/failure_exit.hpp, which prints first and then ends the job.
// Threads of the math libraries are set where those libraries are used.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.hpp"
#include "runtime/launcher.hpp"
#include "runtime/launcher_check.hpp"
#include "watch/monitor.hpp"

namespace cohort {

class Runtime {
 public:
  /// Throws SharedError(launch), on all ranks that MPI joined, if the job was not started as its launcher says. If MPI is up
  /// already (in tests), it is used and left up. // Collective over: world
  Runtime();
  /// Ends the device, Kokkos, then MPI, unless an exception is on its way to main. // Collective over: world
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  int rank() const { return mpi_.rank; }
  int size() const { return mpi_.size; }
  /// Among the ranks of this node, by shared memory as MPI sees it.
  int local_rank() const { return mpi_.local_rank; }
  int local_size() const { return mpi_.local_size; }
  int node_rank() const { return mpi_.node_rank; }
  int node_count() const { return mpi_.node_count; }
  /// Slurm's name of this node, else the host's.
  const std::string& host() const { return host_; }
  /// Starts what tensors and ops need: Kokkos and, for cuda, this rank's GPU (device_choice.hpp). Called once, by commands that
  /// compute. Throws SharedError(launch) if a rank has no GPU, or shares one without `share`. // Collective over: world
  void open_device(DeviceKind kind, bool share = false);
  /// What this rank computes on: "cpu", or the GPU's name and place.
  const std::string& device() const { return device_name_; }
  const LauncherFacts& launcher() const { return launcher_; }
  /// Ends the job when a rank is lost or stuck; started with the others, at COHORT_WATCH_TIMEOUT seconds (60; 0: never).
  Monitor& monitor() { return *monitor_; }
  /// On rank 0 the distinct warnings of all ranks about how the job was started; empty on the others. The command prints them.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Collective over: world
  void start_monitor(double timeout);

  LauncherFacts launcher_;
  MpiFacts mpi_;
  std::string host_;
  std::vector<std::string> warnings_;
  bool owns_mpi_ = false;
  bool owns_kokkos_ = false;
  std::string device_name_ = "cpu";
  int exceptions_before_;
  std::unique_ptr<Monitor> monitor_;  // outlives MPI
};

/// What is known of this process at any time, before, within or after a Runtime; for messages about errors.
struct ProcessIdentity {
  std::optional<int> rank;  // by MPI if it is up, else by the launcher
  int size = 1;
  std::string host;
  bool joined = false;  // by MPI with other ranks
};
ProcessIdentity process_identity();

}  // namespace cohort
