#include "comm/consensus.hpp"
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

// At the steps that are reported each rank tells its own work.
class StragglerWatch : public StepObserver {
 public:
  explicit StragglerWatch(TrainingRun& run) : run_(run), stragglers_(hosts_of(run.world), run.mesh.size(Axis::pp)) {}

  Wish end_step(StepRecord& record) override {
    stragglers_.add(record.step, run_.timers.step_seconds(), run_.timers.own_work());
    if (!run_.is_reported(record.step) || stragglers_.steps() == 0) return {};
    const double own = stragglers_.own_work();
    std::vector<double> all(static_cast<std::size_t>(run_.world.size()));
    run_.world.all_gather(&own, all.data(), 1, DType::f64);
    const Stragglers::Comparison work = stragglers_.compare(all);
    if (!work.news.empty() && run_.world.rank() == 0) {
      run_.log->warning("{}", work.news);
      run_.say(work.news);
    }
    record.figures["slowest_rank"] = work.slowest;
    record.figures["own_work"] = {{"min", work.min}, {"median", work.median}, {"max", work.max}};
    return {};
  }

 private:
  TrainingRun& run_;
  Stragglers stragglers_;
};

}  // namespace

std::unique_ptr<StepObserver> make_straggler_watch(TrainingRun& run) {
  return run.world.size() == 1 ? nullptr : std::make_unique<StragglerWatch>(run);
}

}  // namespace cohort
