#include <algorithm>
#include <cmath>
#include <optional>

#include "base/process.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "gpu/device.hpp"
#include "observe/metrics.hpp"
#include "observe/stragglers.hpp"
#include "runtime/runtime.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

std::vector<std::string> hosts_of(Communicator& world) {
  std::vector<std::string> hosts = gather_texts(world, process_identity().host, 0);
  hosts.resize(static_cast<std::size_t>(world.size()));  // rank 0 alone tells names
  return hosts;
}

// At the steps that are reported each rank tells its own work and its memory: ranks.jsonl has all of them, metrics.jsonl what
// they come to, and rank 0 says who is slow.
class RankFigures : public StepObserver {
 public:
  explicit RankFigures(TrainingRun& run) : run_(run), stragglers_(hosts_of(run.world), run.mesh.size(Axis::pp)) {
    fail_together(run.world, "opening the logs", [&] {
      if (run.world.rank() != 0) return;
      writer_.emplace(std::filesystem::path(run.config.run.directory) / "ranks.jsonl",
                      run.done > 0 ? std::optional<Count>(run.done) : std::nullopt);
    });
  }

  Wish end_step(StepRecord& record) override {
    stragglers_.add(record.step, run_.timers.step_seconds(), run_.timers.own_work());
    if (!is_first_) add_exposed();  // the first step prepares memory and kernels
    is_first_ = false;
    if (!run_.is_reported(record.step)) return {};
    const std::vector<double> work = gathered(stragglers_.steps() > 0 ? stragglers_.own_work() : 0.0);
    const std::vector<double> bytes = gathered(static_cast<double>(memory()));
    const auto most = std::max_element(bytes.begin(), bytes.end());
    record.memory = static_cast<Bytes>(*most);
    record.figures["memory"] = {{"max", *record.memory}, {"rank", most - bytes.begin()}};
    if (stragglers_.steps() == 0) return {};  // of the first step, which is left out
    const Stragglers::Comparison comparison = stragglers_.compare(work);
    tell(record, comparison);
    if (writer_) write(record.step, work, comparison.times, bytes);
    return {};
  }

  void end_run(bool /*completed*/) override {
    if (run_.world.size() == 1 || is_first_) return;
    std::vector<double> shares = gathered(training_ > 0.0 ? exposed_ / training_ : 0.0);
    std::sort(shares.begin(), shares.end());
    run_.say(fmt::format("exposed communication: {:.1f} % of the training time (median of {}; {:.1f} to {:.1f} %)",
                         100.0 * shares[shares.size() / 2], counted(run_.world.size(), "rank"), 100.0 * shares.front(),
                         100.0 * shares.back()));
  }

 private:
  void add_exposed() {
    exposed_ += run_.timers.exposed();
    training_ += run_.timers.training_seconds();
  }

  // Of all ranks.
  std::vector<double> gathered(double own) const {
    std::vector<double> all(static_cast<std::size_t>(run_.world.size()));
    run_.world.all_gather(&own, all.data(), 1, DType::f64);
    return all;
  }

  // In use: of the GPU, or of the host by this process.
  Bytes memory() const {
    if (run_.train_step.device() != DeviceKind::gpu) return resident_memory();
    const gpu::MemoryInfo info = gpu::memory();
    return info.total - info.free;
  }

  void tell(StepRecord& record, const Stragglers::Comparison& work) {
    if (run_.world.size() == 1) return;
    if (!work.news.empty() && run_.world.rank() == 0) {
      run_.log->warning("{}", work.news);
      run_.say(work.news);
    }
    record.figures["slowest_rank"] = work.slowest;
    record.figures["own_work"] = {{"min", work.min}, {"median", work.median}, {"max", work.max}};
  }

  void write(Count step, std::vector<double> own_work, std::vector<double> times, const std::vector<double>& bytes) {
    for (double& seconds : own_work) seconds = std::round(seconds * 1e6) / 1e6;  // shorter, and as good as the clock
    for (double& ratio : times) ratio = std::round(ratio * 1e3) / 1e3;
    const std::vector<Bytes> memory(bytes.begin(), bytes.end());
    writer_->write({{"step", step}, {"own_work", own_work}, {"times", times}, {"memory", memory}});
  }

  TrainingRun& run_;
  Stragglers stragglers_;
  std::optional<MetricsWriter> writer_;    // rank 0
  bool is_first_ = true;                   // step since this start
  double exposed_ = 0.0, training_ = 0.0;  // seconds of all steps but that
};

}  // namespace

std::unique_ptr<StepObserver> make_rank_figures(TrainingRun& run) { return std::make_unique<RankFigures>(run); }

}  // namespace cohort
