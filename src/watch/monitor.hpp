// The job's monitor: notices that a rank is lost or stuck, finds out which, says so, and ends the job, whatever state MPI is in.
//
// A thread on each rank, and a TCP connection from each to rank 0, beside MPI. Several times a second each rank says how much it
// has done (FlightRecorder::progress()). Rank 0 ends the job when
//   - a connection ends without notice: the process was killed, or crashed;
//   - a rank is silent for most of the timeout: it was stopped, or its node or network is down;
//   - nothing moves on any rank for most of the timeout: somebody is stuck, and sooner or later all wait for it. (One rank that
//     works while the others wait for it is not stuck: it moves.)
// It then asks all for a report, names who is to blame (watch/diagnosis.hpp), and every rank writes a dump of its flight recorder
// (RUN/flight) for `cohort doctor`. If it is rank 0 that is lost, the others find out in the same way, and rank 1 speaks.
//
// Nothing from outside the job delays or changes a verdict: rank 0 listens while the job starts, until all ranks are in
// (watch/rendezvous.hpp), and not afterwards; a line that cannot be read is dropped, and said once.
//
// A job that was suspended as a whole (Slurm's gang scheduling, a laptop that slept) is not lost: rank 0 sees from its own clock
// that it did not run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "watch/line_socket.hpp"
#include "watch/liveness.hpp"
#include "watch/rendezvous.hpp"

namespace cohort {

class Monitor {
 public:
  static constexpr double kDefaultSeconds = 60.0;

  struct Options {
    int rank = 0;
    int size = 1;
    std::string host;
    std::vector<std::string> addresses{};  // rank 0: where it listens, see watch/addresses.hpp
    double timeout = kDefaultSeconds;      // seconds until the job has ended; 0: it is never ended
    /// Ends all ranks; does not return. Called by a thread of the monitor, after `say`, on a rank that speaks and, when it is not
    /// ended by that one, later on the others.
    std::function<void()> end_job;
    std::function<void(const std::string&)> say;
  };

  /// Opens rank 0's door; throws Error(launch) if it cannot, or if the process may not open so many files.
  explicit Monitor(Options options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// On rank 0: lets the others in from now on, and returns what they need to find it.
  std::string open();
  /// On the others: returns whether rank 0 was reached, within some seconds.
  bool connect(const std::string& address);
  /// Begins to watch. On rank 0: all ranks but `unreachable` have connected.
  void start(const std::vector<int>& unreachable = {});

  /// From now on.
  void set_timeout(double seconds) { timeout_ = seconds; }
  /// Dumps go to this folder from now on, and the recorder keeps its state in it; what an earlier start left there is removed, by
  /// each rank its own. "" = no dumps.
  void set_folder(const std::filesystem::path& folder);

 private:
  struct Peer {
    LineSocket socket;
    bool expected = true;       // it has not been here yet, and may come
    RankReport report;          // who it is and what it said last
    std::uint64_t changes = 0;  // of its step and activity, when it said so
    bool reported = false;      // since rank 0 asked
    bool garbled = false;       // it has sent a line that cannot be read
    std::string process_state;
  };

  /// What the thread runs: an error of the monitor itself ends the watch, and never the job.
  void run(void (Monitor::*loop)());

  // Rank 0.
  void run_server();
  /// Lets in who is at the door; closes it when all are here.
  void admit(double now);
  void hear(const std::vector<int>& ready, double now);
  /// True for a farewell.
  bool take(int rank, const std::string& line, double now);
  void conclude(double now);
  void ask_for_reports(double seconds, double now);
  std::vector<int> descriptors() const;

  // The others.
  void run_client();
  /// False when the connection is over in order.
  bool answer(const std::string& line);
  void end_without_rank_0(bool gone, double silence);

  std::string beat() const;
  /// Puts what that file says into `report`, if it is newer than `changes`: a rank that is gone has had no time to say it.
  void look_up(RankReport& report, std::uint64_t changes) const;
  RankReport report() const;
  void try_to_dump(const RankReport& report) const;
  std::filesystem::path folder() const;
  double interval() const;
  /// After so many seconds of silence or standstill the job is ended: earlier than the timeout, for saying why takes a while.
  double limit() const { return 0.75 * timeout_; }

  Options options_;
  std::atomic<double> timeout_;
  std::unique_ptr<Rendezvous> rendezvous_;  // rank 0, until all are in
  std::vector<Peer> peers_;                 // rank 0: one for each rank, its own is not connected
  LineSocket server_;                       // the others
  RankReport rank_0_;                       // host and process of rank 0
  std::unique_ptr<Liveness> liveness_;      // rank 0; made by start()
  std::atomic<bool> started_ = false;
  double resumed_ = -1e9;  // rank 0: when it noticed that it had not run for a while
  mutable std::mutex folder_mutex_;
  std::filesystem::path folder_;
  std::atomic<bool> ending_ = false;
  std::array<int, 2> wake_{-1, -1};  // a pipe whose first end is readable when ending
  std::thread thread_;
};

}  // namespace cohort
