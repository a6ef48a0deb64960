// Saving while training continues: the ranks copy what they hold to host memory, and threads in the background write the copies,
// on a communicator of their own. At most one save is in flight.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/write/save.hpp"
#include "comm/communicator.hpp"

namespace cohort {

class CheckpointSaver {
 public:
  /// Of a run on the ranks of `world`. Asynchronous saving on several ranks needs an MPI that lets all threads communicate
  /// (MPI_THREAD_MULTIPLE), else Error(launch). // Collective over: world
  CheckpointSaver(Communicator& world, std::filesystem::path run_folder, SaveOptions options, bool asynchronous);
  /// Waits for the save in flight; its errors are lost, so call finish() before.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  struct Report {
    Saved saved;
    double seconds = 0.0;  // from the begin of save() until it was on disk
    double stall = 0.0;    // of them, while save() kept the caller waiting
  };

  /// Asynchronous: allocates the memory of the copies now, instead of in the first save (pinning some gigabytes takes a second).
  void reserve(const std::vector<StateShard>& shards);

  /// Saves the shards as they are now. Synchronous: returns when the checkpoint is on disk. Asynchronous: returns when the shards
  /// may change again; no save may be in flight (finish() waits for it). Throws SharedError. // Collective over: world
  void save(const std::vector<StateShard>& shards, const TrainingState& state);

  /// Whether a save that is in flight has ended on this rank, well or not. Ranks may get different answers: let them
  /// agree before finish().
  bool has_news() const;
  /// Waits for the save in flight, and tells of the last one, once. Throws its SharedError. // Collective over: world
  std::optional<Report> finish();

 private:
  Count given_elements(const std::vector<StateShard>& shards) const;
  std::vector<WriteItem> snapshot(const std::vector<StateShard>& shards);

  std::unique_ptr<Communicator> comm_;
  std::filesystem::path run_folder_;
  SaveOptions options_;
  bool asynchronous_;
  Tensor memory_;  // of the snapshot; kept from save to save
  std::future<Report> in_flight_;
  std::optional<Report> last_;
};

}  // namespace cohort
