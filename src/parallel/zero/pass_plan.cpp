#include "parallel/zero/pass_plan.hpp"

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "parallel/zero/zero2.hpp"

namespace cohort {
namespace {

// A BufferPool of which only the sizes are real.
class PlannedPool {
 public:
  void take(Count elements, DType dtype) {
    Use& use = uses_[{elements, dtype}];
    if (++use.taken > use.made) use.made = use.taken;
  }
  void give_back(Count elements, DType dtype) { --uses_[{elements, dtype}].taken; }
  Bytes bytes() const {
    Bytes bytes = 0;
    for (const auto& [size, use] : uses_) bytes += use.made * size.first * size_of(size.second);
    return bytes;
  }

 private:
  struct Use {
    Count taken = 0, made = 0;
  };
  std::map<std::pair<Count, DType>, Use> uses_;
};

class Player {
 public:
  Player(const Model& model, const std::vector<ShardGroup>& groups, const std::string& strategy, DType compute, DType reduction)
      : model_(model),
        groups_(groups),
        of_units_(groups_of_units(model, groups)),
        divides_weights_(strategy == "zero3"),
        divides_gradients_(strategy != "zero1"),
        compute_(compute),
        reduction_(reduction),
        present_(groups.size(), false),
        has_gradient_(groups.size(), false) {
    plan_.gathers.resize(groups.size(), 0);
    for (const ShardGroup& group : groups) waiting_for_.push_back(group.members.size());
    group_of_.resize(model.parameters().all().size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const ShardGroup::Member& member : groups[g].members) group_of_[member.parameter->index] = g;
    }
    first_unit_of_.resize(group_of_.size());
    for (std::size_t unit = of_units_.size(); unit-- > 0;) {
      for (const Parameter* parameter : model.units()[unit].parameters) first_unit_of_[parameter->index] = unit;
    }
  }

  PassPlan play() {
    const std::size_t units = of_units_.size();
    for (std::size_t unit = 0; unit < units; ++unit) {
      need(unit, unit + 1);
      if (unit + 1 == units && model_.loss_computes_head_gradient()) begin_gradients(unit);
    }
    for (std::size_t unit = units; unit-- > 0;) {
      if (model_.units()[unit].backward_reads) need(unit, unit > 0 && model_.units()[unit - 1].backward_reads ? unit - 1 : units);
      begin_gradients(unit);
      end_gradients(unit);
    }
    while (!reducing_.empty()) finish_reduction();
    plan_.buffers = pool_.bytes();
    return plan_;
  }

 private:
  // The weights of a unit are in memory, those of `next` (if there is such a unit) on their way, and no others.
  void need(std::size_t unit, std::size_t next) {
    if (!divides_weights_) return;
    std::set<std::size_t> needed(of_units_[unit].begin(), of_units_[unit].end());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (present_[g] && !needed.contains(g)) {
        pool_.give_back(groups_[g].elements, compute_);
        present_[g] = false;
      }
    }
    if (next < of_units_.size()) needed.insert(of_units_[next].begin(), of_units_[next].end());
    for (const std::size_t g : needed) {
      if (present_[g]) continue;
      pool_.take(groups_[g].elements, compute_);
      present_[g] = true;
      ++plan_.gathers[g];
    }
  }

  void begin_gradients(std::size_t unit) {
    if (!divides_gradients_) return;
    for (const std::size_t g : of_units_[unit]) {
      if (has_gradient_[g]) continue;
      pool_.take(groups_[g].elements, DType::f32);
      has_gradient_[g] = true;
    }
  }

  // The gradients of the unit's parameters are ready, but for a weight that an earlier unit uses as well.
  void end_gradients(std::size_t unit) {
    for (const Parameter* parameter : model_.units()[unit].parameters) {
      if (first_unit_of_[parameter->index] != unit) continue;
      const std::size_t g = group_of_[parameter->index];
      if (--waiting_for_[g] > 0) continue;
      while (divides_gradients_ && reducing_.size() >= ShardedGradients::kInFlight) finish_reduction();
      if (reduction_ != DType::f32) pool_.take(groups_[g].elements, reduction_);
      reducing_.push_back(g);
    }
  }

  void finish_reduction() {
    const std::size_t g = reducing_.front();
    reducing_.pop_front();
    if (reduction_ != DType::f32) pool_.give_back(groups_[g].elements, reduction_);
    if (divides_gradients_) pool_.give_back(groups_[g].elements, DType::f32);
  }

  const Model& model_;
  const std::vector<ShardGroup>& groups_;
  std::vector<std::vector<std::size_t>> of_units_;
  bool divides_weights_, divides_gradients_;
  DType compute_, reduction_;
  std::vector<bool> present_, has_gradient_;
  std::vector<std::size_t> group_of_, first_unit_of_;  // by parameter index
  std::vector<std::size_t> waiting_for_;
  std::deque<std::size_t> reducing_;  // oldest first
  PlannedPool pool_;
  PassPlan plan_;
};

}  // namespace

PassPlan plan_pass(const Model& model, const std::vector<ShardGroup>& groups, const std::string& strategy, DType compute,
                   DType reduction) {
  return Player(model, groups, strategy, compute, reduction).play();
}

}  // namespace cohort
