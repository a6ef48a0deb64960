#include "optim/matrix_plan.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace cohort {

const MatrixPart* HeldMatrix::of(int holder) const {
  const auto found = std::lower_bound(parts.begin(), parts.end(), holder,
                                      [](const MatrixPart& part, int wanted) { return part.holder < wanted; });
  return found == parts.end() || found->holder != holder ? nullptr : &*found;
}

bool HeldMatrix::counts(const MatrixPart& part) const {
  const auto own = boxes.begin() + part.box;
  return std::find(boxes.begin(), own, *own) == own;
}

MatrixPlan::MatrixPlan(std::vector<HeldMatrix> matrices, int holders)
    : matrices_(std::move(matrices)), holders_(holders), owners_(matrices_.size()) {
  COHORT_CHECK(holders >= 1, "matrices of {} holders", holders);
  std::vector<std::size_t> order(matrices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return matrices_[a].cost > matrices_[b].cost; });
  std::vector<double> load(static_cast<std::size_t>(holders), 0.0);
  std::vector<std::size_t> owned(load.size(), 0);
  for (const std::size_t matrix : order) {
    const auto owner = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    owners_[matrix] = static_cast<int>(owner);
    load[owner] += matrices_[matrix].cost;
    const std::size_t round = owned[owner]++;
    if (round == rounds_.size()) rounds_.emplace_back();
    rounds_[round].push_back(matrix);
  }
}

double MatrixPlan::cost_of(int owner) const {
  double cost = 0.0;
  for (std::size_t m = 0; m < matrices_.size(); ++m) cost += owners_[m] == owner ? matrices_[m].cost : 0.0;
  return cost;
}

bool MatrixPlan::holds_whole(std::size_t matrix, int holder) const {
  const MatrixPart* part = matrices_[matrix].of(holder);
  return owners_[matrix] == holder && part != nullptr && part->elements == matrices_[matrix].elements();
}

std::vector<MatrixPlan::Buffers> MatrixPlan::buffers() const {
  std::vector<Buffers> most(static_cast<std::size_t>(holders_));
  for (const auto& round : rounds_) {
    std::vector<Buffers> need(most.size());
    for (const std::size_t m : round) {
      Buffers& owner = need[static_cast<std::size_t>(owners_[m])];
      owner.matrix = matrices_[m].elements();
      for (const MatrixPart& part : matrices_[m].parts) {
        if (part.holder != owners_[m]) owner.incoming += part.elements;
        if (part.holder != owners_[m] || part.elements < matrices_[m].elements())
          need[static_cast<std::size_t>(part.holder)].own += part.elements;
      }
    }
    for (std::size_t h = 0; h < most.size(); ++h) {
      most[h] = {std::max(most[h].own, need[h].own), std::max(most[h].incoming, need[h].incoming),
                 std::max(most[h].matrix, need[h].matrix)};
    }
  }
  return most;
}

std::vector<Count> MatrixPlan::sent_elements() const {
  std::vector<Count> sent(static_cast<std::size_t>(holders_), 0);
  for (std::size_t m = 0; m < matrices_.size(); ++m) {
    for (const MatrixPart& part : matrices_[m].parts) {
      if (part.holder == owners_[m]) continue;
      sent[static_cast<std::size_t>(owners_[m])] += part.elements;
      if (matrices_[m].counts(part)) sent[static_cast<std::size_t>(part.holder)] += part.elements;
    }
  }
  return sent;
}

}  // namespace cohort
