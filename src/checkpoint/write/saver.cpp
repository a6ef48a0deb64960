#include "checkpoint/write/saver.hpp"

#include <chrono>

#include "base/error.hpp"
#include "comm/mpi_communicator.hpp"
#include "observe/tracer.hpp"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

CheckpointSaver::CheckpointSaver(Communicator& world, std::filesystem::path run_folder, SaveOptions options, bool asynchronous)
    : comm_(world.split(0, world.rank(), "checkpoint")),
      run_folder_(std::move(run_folder)),
      options_(std::move(options)),
      asynchronous_(asynchronous) {
  if (!asynchronous) return;
  comm_->be_patient();
  if (world.size() > 1 && !all_threads_may_communicate()) {
    fail(ExitCode::launch,
         "checkpoint.async = true: this MPI lacks MPI_THREAD_MULTIPLE; use another build of MPI, or set async = false");
  }
}

CheckpointSaver::~CheckpointSaver() {
  if (in_flight_.valid()) in_flight_.wait();
}

void CheckpointSaver::save(const std::vector<StateShard>& shards, const TrainingState& state) {
  const Clock::time_point begin = Clock::now();
  if (!asynchronous_) {
    Report report;
    report.saved = save_parts(*comm_, run_folder_, write_items_of(shards, options_), state, options_);
    report.seconds = report.stall = seconds_since(begin);
    last_ = report;
    return;
  }
  COHORT_CHECK(!in_flight_.valid(), "two saves at once");
  std::vector<WriteItem> parts = snapshot(shards);
  const double stall = seconds_since(begin);
  in_flight_ = std::async(std::launch::async, [this, parts = std::move(parts), state, begin, stall]() mutable {
    constexpr int kThread = 1;  // the first in the background
    const BackgroundSpan span(kThread, "saving a checkpoint");
    Report report;
    report.saved = save_parts(*comm_, run_folder_, std::move(parts), state, options_);
    report.seconds = seconds_since(begin);
    report.stall = stall;
    return report;
  });
}

bool CheckpointSaver::has_news() const {
  return in_flight_.valid() && in_flight_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::optional<CheckpointSaver::Report> CheckpointSaver::finish() {
  if (in_flight_.valid()) last_ = in_flight_.get();
  return std::exchange(last_, std::nullopt);
}

// Pinned memory, so that copies from a GPU run at the full rate of the bus.
void CheckpointSaver::reserve(const std::vector<StateShard>& shards) {
  const Count elements = given_elements(shards);
  if (asynchronous_ && (!memory_.defined() || memory_.elements() < elements)) {
    memory_ = Tensor::pinned("checkpoint.snapshot", {elements});
  }
}

Count CheckpointSaver::given_elements(const std::vector<StateShard>& shards) const {
  Count elements = 0;
  for (const StateShard& shard : shards) elements += is_given(shard, options_) ? shard.elements.elements() : 0;
  return elements;
}

std::vector<WriteItem> CheckpointSaver::snapshot(const std::vector<StateShard>& shards) {
  reserve(shards);
  std::vector<StateShard> copies;
  Count at = 0;
  for (const StateShard& shard : shards) {
    if (!is_given(shard, options_)) continue;
    const Count n = shard.elements.elements();
    const Tensor copy = memory_.slice(at, at + n);
    shard.elements.copy_to(copy);
    copies.push_back({shard.tensor, shard.order, shard.part, copy, true});
    at += n;
  }
  return write_items_of(copies, options_);
}

}  // namespace cohort
