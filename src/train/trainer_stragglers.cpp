// How Trainer finds ranks that are slower than the others: at the steps that are reported each rank tells its own work.
#include "comm/agreement.hpp"
#include "runtime/runtime.hpp"
#include "train/trainer.hpp"

namespace cohort {

void Trainer::watch_for_stragglers() {
  if (world_.size() == 1) return;
  std::vector<std::string> hosts = gather_texts(world_, process_identity().host, 0);
  hosts.resize(static_cast<std::size_t>(world_.size()));  // rank 0 alone tells names
  stragglers_ = std::make_unique<Stragglers>(std::move(hosts), mesh_.size(Axis::pp));
}

std::optional<Stragglers::Comparison> Trainer::compare_work() {
  if (!stragglers_) return std::nullopt;
  stragglers_->add(done_, timers_.step_seconds(), timers_.own_work());
  if (!is_reported(done_) || stragglers_->steps() == 0) return std::nullopt;
  const double own = stragglers_->own_work();
  std::vector<double> all(static_cast<std::size_t>(world_.size()));
  world_.all_gather(&own, all.data(), 1, DType::f64);
  Stragglers::Comparison work = stragglers_->compare(all);
  if (!work.news.empty() && world_.rank() == 0) {
    log_->warning("{}", work.news);
    say(work.news);
  }
  return work;
}

}  // namespace cohort
