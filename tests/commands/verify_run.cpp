// verify_run RUN: reads all that counts as a checkpoint of a run back, as `checkpoint.verify` does, and prints a line for each:
// its step. For the tests that kill and starve runs.
#include <fmt/format.h>

#include "base/error.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/store/store.hpp"

int main(int, char** argv) {
  try {
    for (const cohort::StoredCheckpoint& checkpoint : cohort::list_checkpoints(argv[1])) {
      const cohort::CheckpointReader reader(checkpoint.folder);
      reader.verify();
      if (reader.state().step != checkpoint.step) {
        cohort::fail(cohort::ExitCode::checkpoint, "{} holds step {}", checkpoint.folder.string(), reader.state().step);
      }
      fmt::print("{}\n", checkpoint.step);
    }
    return 0;
  } catch (const cohort::Error& error) {
    fmt::print(stderr, "cohort: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
