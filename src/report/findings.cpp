#include "report/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "report/series.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostOfAKind = 5;

void find_losses_not_finite(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const loss = run.find("loss");
  if (loss == nullptr) return;
  Count count = 0, first = 0;
  for (std::size_t i = 0; i < loss->steps.size(); ++i) {
    if (std::isfinite(loss->values[i])) continue;
    if (count++ == 0) first = loss->steps[i];
  }
  if (count > 0)
    found.push_back({first, fmt::format("The loss is not finite in {}, first in step {}.", counted(count, "step"), first)});
}

void find_spikes(const RunRecord& run, std::vector<Finding>& found) {
  constexpr std::size_t kBefore = 50, kAtLeast = 20;
  constexpr double kSpreads = 6.0, kShare = 0.1;
  const StepSeries* const loss = run.find("loss");
  if (loss == nullptr) return;
  struct Spike {
    std::size_t at;
    double usual, height;
  };
  std::vector<Spike> spikes;
  for (std::size_t i = kAtLeast; i < loss->values.size(); ++i) {
    const std::size_t begin = i > kBefore ? i - kBefore : 0;
    const std::vector<double> before(loss->values.begin() + static_cast<std::ptrdiff_t>(begin),
                                     loss->values.begin() + static_cast<std::ptrdiff_t>(i));
    const double usual = median_of(before);
    // Only a jump up can be a spike, and it has to be seen against a spread: the cheap question first.
    if (!(loss->values[i] > (1.0 + kShare) * usual)) continue;
    std::vector<double> deviations;
    for (const double value : before) deviations.push_back(std::abs(value - usual));
    const double height = loss->values[i] - usual;
    if (height > kSpreads * median_of(deviations) && std::isfinite(height)) spikes.push_back({i, usual, height});
  }
  const std::size_t all = spikes.size();
  std::sort(spikes.begin(), spikes.end(), [](const Spike& a, const Spike& b) { return a.height > b.height; });
  spikes.resize(std::min(all, kMostOfAKind));
  for (const Spike& spike : spikes) {
    const Count step = loss->steps[spike.at];
    found.push_back(
        {step, fmt::format(
                   "Spike: the loss of step {} is {:.4g}, where {:.4g} was usual. Its samples: cohort data samples {} --step {}",
                   step, loss->values[spike.at], spike.usual, run.folder.string(), step)});
  }
  if (all > spikes.size())
    found.push_back(
        {loss->steps[spikes.front().at], fmt::format("There are {} more spikes, of less height.", all - spikes.size())});
}

void find_skipped_steps(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const scale = run.find("loss_scale");
  if (scale == nullptr) return;
  Count falls = 0, first = 0;
  for (std::size_t i = 1; i < scale->values.size(); ++i) {
    if (scale->values[i] >= scale->values[i - 1]) continue;
    if (falls++ == 0) first = scale->steps[i];
  }
  if (falls > 0) {
    found.push_back(
        {first, fmt::format("fp16 overflowed in {}, first in step {}: those steps were skipped, and the loss scale halved.",
                            counted(falls, "step"), first)});
  }
}

void find_rising_validation(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const validation = run.find("validation_loss");
  if (validation == nullptr || validation->values.size() < 4) return;
  const auto least = std::min_element(validation->values.begin(), validation->values.end());
  const auto at = static_cast<std::size_t>(least - validation->values.begin());
  const double last = validation->values.back();
  if (validation->values.size() - 1 - at < 3 || !(last > 1.02 * *least)) return;
  found.push_back(
      {validation->steps[at],
       fmt::format("The validation loss was lowest at step {} ({:.4f}) and is {:.4f} now: the run learns its data by heart.",
                   validation->steps[at], *least, last)});
}

void find_plateau(const RunRecord& run, std::vector<Finding>& found) {
  constexpr std::size_t kLeastSteps = 300;
  const StepSeries* const loss = run.find("loss");
  if (loss == nullptr || loss->values.size() < kLeastSteps) return;
  const StepSeries smooth = smoothed(*loss);
  if (smooth.values.size() < kLeastSteps) return;
  const std::size_t begin = smooth.values.size() * 2 / 3;
  const double then = smooth.values[begin], now = smooth.values.back();
  if (then - now >= 0.005 * then || (run.entropy_floor && now < 1.05 * *run.entropy_floor)) return;
  found.push_back({smooth.steps[begin], fmt::format("Plateau: since step {} the smoothed loss went from {:.4f} to {:.4f}.",
                                                    smooth.steps[begin], then, now)});
}

void find_slow_ranks(const RunRecord& run, std::vector<Finding>& found) {
  if (run.ranks.own_work.empty()) return;
  const std::size_t ranks = run.ranks.own_work.front().size(), reports = run.ranks.own_work.size();
  if (ranks < 2 || reports < 3) return;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t slow = 0;
    double most = 0.0;
    Count first = 0;
    for (std::size_t i = 0; i < reports; ++i) {
      const double usual = median_of(run.ranks.own_work[i]), times = usual > 0.0 ? run.ranks.own_work[i][rank] / usual : 0.0;
      if (times <= 1.3) continue;
      if (slow++ == 0) first = run.ranks.steps[i];
      most = std::max(most, times);
    }
    if (3 * slow < reports) continue;
    found.push_back(
        {first, fmt::format("Rank {} works longer than the others in {} of {} reports, up to {:.1f} times the median.", rank,
                            slow, reports, most)});
  }
}

void find_time_beside_training(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const step = run.find("seconds.step");
  if (step == nullptr) return;
  const double all = std::accumulate(step->values.begin(), step->values.end(), 0.0);
  for (const auto& [name, what] :
       {std::pair{"seconds.validation", "validations"}, {"seconds.checkpoint", "saves of checkpoints"}}) {
    const StepSeries* const part = run.find(name);
    if (part == nullptr || all <= 0.0) continue;
    const double share = std::accumulate(part->values.begin(), part->values.end(), 0.0) / all;
    if (share > 0.1)
      found.push_back({step->steps.front(), fmt::format("{:.0f} % of the time went into {}.", 100.0 * share, what)});
  }
}

}  // namespace

std::vector<Finding> findings_of(const RunRecord& run) {
  std::vector<Finding> found;
  find_losses_not_finite(run, found);
  find_spikes(run, found);
  find_skipped_steps(run, found);
  find_rising_validation(run, found);
  find_plateau(run, found);
  find_slow_ranks(run, found);
  find_time_beside_training(run, found);
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) { return a.step < b.step; });
  return found;
}

}  // namespace cohort
