#include "plan/replay.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

namespace cohort {
namespace {

constexpr std::string_view kPipeline = "pp";

// What group a collective's time is counted to: "dp" of "dp.shards".
std::string first_word(const std::string& group) { return group.substr(0, group.find('.')); }

class Player {
 public:
  Player(const MachineProfile& profile, int ranks_per_node) : profile_(profile), ranks_per_node_(ranks_per_node) {}

  Replay play(const WorkTape& tape) {
    entries_ = tape.entries();
    seconds_.assign(entries_.size(), kUnknown);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      played_.clock.push_back(now_);
      if (const auto* const again = std::get_if<TakenAgain>(&entries_[i])) {
        for (std::size_t j = again->begin; j < again->end; ++j) take(j);
      } else {
        take(i);
      }
    }
    played_.clock.push_back(now_);
    return std::move(played_);
  }

 private:
  static constexpr double kUnknown = -1.0;

  struct Flight {
    double start = 0.0, end = 0.0;
    double* waiting = nullptr;  // where what waits for it is summed; null: not under way
    double hidden = 1.0;        // MachineProfile::hidden
  };

  void take(std::size_t i) {
    std::visit([&](const auto& one) { take(one, seconds_[i]); }, entries_[i]);
  }

  // `seconds` is the same each time that an entry is taken.
  void take(const OpWork& work, double& seconds) {
    if (seconds == kUnknown) seconds = profile_.seconds_of(work);
    now_ += seconds;
    StepSplit& split = played_.split;
    (work.kind == OpKind::product     ? split.products
     : work.kind == OpKind::attention ? split.attention
     : work.kind == OpKind::optimizer ? split.optimizer
                                      : split.pointwise) += seconds;
  }

  void take(const CollectiveStart& one, double& seconds) {
    if (one.group == kPipeline) return;
    if (one.group == kHostGroup) return copy(one, seconds);
    if (seconds == kUnknown) seconds = profile_.seconds_of(one.operation, span(one), one.bytes);
    const double start = std::max(now_, links_free_);
    links_free_ = start + seconds;
    played_.communication += seconds;
    flight(one) = {start, links_free_, &exposed(one.group), profile_.hidden};
  }

  void copy(const CollectiveStart& one, double& seconds) {
    if (seconds == kUnknown) seconds = static_cast<double>(one.bytes) / profile_.host_bytes_per_second;
    host_link_free_ = std::max(now_, host_link_free_) + seconds;
    played_.host_copies += seconds;
    flight(one) = {host_link_free_ - seconds, host_link_free_, &played_.split.host_copies};
    if (profile_.device == DeviceKind::cpu) take(CollectiveWait{one.id}, seconds);
  }

  Flight& flight(const CollectiveStart& one) {
    if (flights_.size() <= one.id) flights_.resize(one.id + 1);
    return flights_[one.id];
  }

  void take(const CollectiveWait& one, double& /*seconds*/) {
    if (one.id >= flights_.size() || flights_[one.id].waiting == nullptr) return;
    Flight& flight = flights_[one.id];
    const double beside = std::clamp(now_ - flight.start, 0.0, flight.end - flight.start);
    const double slowed = (1.0 - flight.hidden) * beside;
    const double until = std::max(now_, flight.end) + slowed;
    *flight.waiting += until - now_;
    links_free_ += slowed;  // nothing of a copy, beside which work goes on as if alone
    now_ = until;
    flight.waiting = nullptr;
  }

  void take(const TakenAgain& /*again*/, double& /*seconds*/) {}  // which has none in it

  // Where what waits for a group is summed: of few groups, asked for often.
  double& exposed(const std::string& group) {
    for (const auto& [name, sum] : exposed_) {
      if (name == group) return *sum;
    }
    double& sum = played_.split.exposed[first_word(group)];
    exposed_.emplace_back(group, &sum);
    return sum;
  }

  const GroupSpan& span(const CollectiveStart& one) {
    const auto found = spans_.find(one.members.get());
    if (found != spans_.end()) return found->second;
    return spans_[one.members.get()] = span_of(*one.members, ranks_per_node_);
  }

  const MachineProfile& profile_;
  int ranks_per_node_;
  Replay played_;
  double now_ = 0.0, links_free_ = 0.0, host_link_free_ = 0.0;
  std::span<const WorkEntry> entries_;
  std::vector<double> seconds_;  // of each entry; kUnknown until it is taken
  std::vector<Flight> flights_;  // by id
  std::vector<std::pair<std::string, double*>> exposed_;
  std::map<const void*, GroupSpan> spans_;
};

}  // namespace

double StepSplit::communicating() const {
  double sum = 0.0;
  for (const auto& [group, seconds] : exposed) sum += seconds;
  return sum;
}

StepSplit StepSplit::plus(const StepSplit& other, double factor) const {
  StepSplit sum = *this;
  for (const auto part : {&StepSplit::products, &StepSplit::attention, &StepSplit::pointwise, &StepSplit::optimizer,
                          &StepSplit::host_copies, &StepSplit::bubble})
    sum.*part += factor * other.*part;
  for (const auto& [group, seconds] : other.exposed) sum.exposed[group] += factor * seconds;
  return sum;
}

Replay replay(const WorkTape& tape, const MachineProfile& profile, int ranks_per_node) {
  return Player(profile, ranks_per_node).play(tape);
}

}  // namespace cohort
