#include "plan/replay.hpp"

#include <algorithm>
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
    for (const WorkEntry& entry : tape.entries()) {
      played_.clock.push_back(now_);
      std::visit([this](const auto& one) { take(one); }, entry);
    }
    played_.clock.push_back(now_);
    return std::move(played_);
  }

 private:
  struct Flight {
    double start, end;
    std::string group;
    double hidden = 1.0;  // MachineProfile::hidden
  };

  void take(const OpWork& work) {
    const double seconds = profile_.seconds_of(work);
    now_ += seconds;
    StepSplit& split = played_.split;
    (work.kind == OpKind::product     ? split.products
     : work.kind == OpKind::attention ? split.attention
     : work.kind == OpKind::optimizer ? split.optimizer
                                      : split.pointwise) += seconds;
  }

  void take(const CollectiveStart& one) {
    if (one.group == kPipeline) return;
    if (one.group == kHostGroup) return copy(one);
    const double seconds = profile_.seconds_of(one.operation, span(one), one.bytes);
    const double start = std::max(now_, links_free_);
    links_free_ = start + seconds;
    played_.communication += seconds;
    flights_[one.id] = {start, links_free_, first_word(one.group), profile_.hidden};
  }

  void copy(const CollectiveStart& one) {
    const double seconds = static_cast<double>(one.bytes) / profile_.host_bytes_per_second;
    host_link_free_ = std::max(now_, host_link_free_) + seconds;
    flights_[one.id] = {host_link_free_ - seconds, host_link_free_, one.group};
    if (profile_.device == DeviceKind::cpu) take(CollectiveWait{one.id});
  }

  void take(const CollectiveWait& one) {
    const auto found = flights_.find(one.id);
    if (found == flights_.end()) return;
    const Flight& flight = found->second;
    const double beside = std::clamp(now_ - flight.start, 0.0, flight.end - flight.start);
    const double slowed = (1.0 - flight.hidden) * beside;
    const double until = std::max(now_, flight.end) + slowed;
    played_.split.exposed[flight.group] += until - now_;
    if (flight.group != kHostGroup) links_free_ += slowed;
    now_ = until;
    flights_.erase(found);
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
  std::map<std::size_t, Flight> flights_;
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
  for (const auto part :
       {&StepSplit::products, &StepSplit::attention, &StepSplit::pointwise, &StepSplit::optimizer, &StepSplit::bubble})
    sum.*part += factor * other.*part;
  for (const auto& [group, seconds] : other.exposed) sum.exposed[group] += factor * seconds;
  return sum;
}

Replay replay(const WorkTape& tape, const MachineProfile& profile, int ranks_per_node) {
  return Player(profile, ranks_per_node).play(tape);
}

}  // namespace cohort
