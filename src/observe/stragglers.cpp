#include "observe/stragglers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace cohort {
namespace {

// The lower one of the two in the middle: of two ranks it is the other's, of many it does not matter.
double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

void Stragglers::add(Count step, double step_seconds, double own_work) {
  if (!warm_) {
    warm_ = true;
    return;
  }
  if (steps_++ == 0) first_step_ = step;
  last_step_ = step;
  step_seconds_ += step_seconds;
  own_work_ += own_work;
}

Stragglers::Comparison Stragglers::compare(std::span<const double> own_work) {
  COHORT_CHECK(steps_ > 0 && own_work.size() == hosts_.size(), "{} steps, the work of {} ranks of {}", steps_, own_work.size(),
               hosts_.size());
  const std::size_t like = own_work.size() / static_cast<std::size_t>(stages_);
  std::vector<double> usual;  // of each rank: the median of its stage
  for (std::size_t begin = 0; begin < own_work.size(); begin += like) {
    usual.insert(usual.end(), like, median_of(own_work.subspan(begin, like)));
  }
  std::size_t slowest = 0;
  for (std::size_t rank = 1; rank < own_work.size(); ++rank) {
    if (own_work[rank] - usual[rank] > own_work[slowest] - usual[slowest]) slowest = rank;
  }
  const auto [least, most] = std::minmax_element(own_work.begin(), own_work.end());
  Comparison comparison{.slowest = static_cast<int>(slowest), .min = *least, .median = median_of(own_work), .max = *most};
  for (std::size_t rank = 0; rank < own_work.size(); ++rank)
    comparison.times.push_back(usual[rank] > 0.0 ? own_work[rank] / usual[rank] : 1.0);
  comparison.news = news_of(own_work, usual);
  steps_ = 0;
  step_seconds_ = own_work_ = 0.0;
  return comparison;
}

std::string Stragglers::news_of(std::span<const double> own_work, std::span<const double> usual) {
  const double step = step_seconds_ / static_cast<double>(steps_);
  const double worth_telling = std::max(kShareOfStep * step, kSeconds / static_cast<double>(steps_));
  constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
  std::size_t slow_ranks = 0, changed = kNobody, recovered = kNobody;
  for (std::size_t rank = 0; rank < own_work.size(); ++rank) {
    // Of a median of almost nothing everything is many times.
    const double ratio = own_work[rank] / std::max(usual[rank], 1e-9);
    const double excess = own_work[rank] - usual[rank];
    const bool slow = ratio > kSlow && excess > worth_telling;
    double& told = told_[rank];
    if (slow) {
      ++slow_ranks;
      if (told == 0.0 || ratio > kChange * told || kChange * ratio < told) {
        told = ratio;
        if (changed == kNobody || excess > own_work[changed] - usual[changed]) changed = rank;
      }
    } else if (told > 0.0 && ratio < kKeepsUp) {
      told = 0.0;
      recovered = rank;
    }
  }
  const std::string steps =
      first_step_ == last_step_ ? fmt::format("step {}", last_step_) : fmt::format("steps {} to {}", first_step_, last_step_);
  if (changed != kNobody) {
    return fmt::format(
        "rank {} on {} is slow: its own work took {:.3g} s per step where the median is {:.3g} s ({}){}", changed,
        hosts_[changed], own_work[changed], usual[changed], steps,
        slow_ranks > 1 ? fmt::format("; {} more {} slow, too", slow_ranks - 1, slow_ranks == 2 ? "is" : "are") : "");
  }
  if (recovered != kNobody && slow_ranks == 0) {
    return fmt::format("rank {} on {} keeps up again ({})", recovered, hosts_[recovered], steps);
  }
  return {};
}

}  // namespace cohort
