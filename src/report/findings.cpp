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

struct Spike {
  std::size_t at;
  double usual, height;
};

// Of neighbours, which are one event, the highest.
std::vector<Spike> spikes_of(const StepSeries& loss) {
  constexpr std::size_t kBefore = 50, kAtLeast = 20;
  constexpr double kSpreads = 6.0, kShare = 0.1;
  std::vector<Spike> spikes;
  for (std::size_t i = kAtLeast; i < loss.values.size(); ++i) {
    const auto end = loss.values.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<double> before(end - static_cast<std::ptrdiff_t>(std::min(i, kBefore)), end);
    const double usual = median_of(before), height = loss.values[i] - usual;
    if (!(height > kShare * usual) || !std::isfinite(height)) continue;
    std::vector<double> deviations;
    for (const double value : before) deviations.push_back(std::abs(value - usual));
    if (height <= kSpreads * median_of(deviations)) continue;
    const bool same_event = !spikes.empty() && i - spikes.back().at < kBefore;
    if (!same_event) {
      spikes.push_back({i, usual, height});
    } else if (height > spikes.back().height) {
      spikes.back() = {i, usual, height};
    }
  }
  return spikes;
}

void find_spikes(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const loss = run.find("loss");
  if (loss == nullptr) return;
  std::vector<Spike> spikes = spikes_of(*loss);
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
  const std::size_t more = all - spikes.size();
  if (more > 0)
    found.push_back({loss->steps[spikes.front().at], fmt::format("There {} {}, lower than these.", more == 1 ? "is" : "are",
                                                                 counted(static_cast<Count>(more), "more spike"))});
}

void find_skipped_steps(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const skipped = run.find("skipped");
  if (skipped == nullptr) return;
  const bool scaled = run.find("loss_scale") != nullptr;
  found.push_back(
      {skipped->steps.front(),
       fmt::format("{} {} skipped, first step {}: {}.", counted(static_cast<Count>(skipped->steps.size()), "step"),
                   skipped->steps.size() == 1 ? "was" : "were", skipped->steps.front(),
                   scaled ? "fp16 overflowed, and the loss scale was halved" : "the loss or its gradient was not finite")});
}

void find_rising_validation(const RunRecord& run, std::vector<Finding>& found) {
  const StepSeries* const validation = run.find("validation_loss");
  if (validation == nullptr || validation->values.size() < 4) return;
  const double least = least_of(validation->values), last = validation->values.back();
  const auto at = static_cast<std::size_t>(std::find(validation->values.begin(), validation->values.end(), least) -
                                           validation->values.begin());
  if (at + 3 >= validation->values.size() || !(last > 1.02 * least)) return;
  found.push_back({validation->steps[at], fmt::format("The validation loss was lowest at step {} ({:.4f}) and is {:.4f} now: "
                                                      "with a training loss that falls, the model overfits.",
                                                      validation->steps[at], least, last)});
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
  if (now > 1.005 * then) {
    found.push_back({smooth.steps[begin], fmt::format("The smoothed loss rises: {:.4f} at step {}, {:.4f} at the end.", then,
                                                      smooth.steps[begin], now)});
    return;
  }
  found.push_back({smooth.steps[begin], fmt::format("Plateau: since step {} the smoothed loss went from {:.4f} to {:.4f}.",
                                                    smooth.steps[begin], then, now)});
}

void find_slow_ranks(const RunRecord& run, std::vector<Finding>& found) {
  const RankRecord& ranks = run.ranks;
  if (ranks.reports < 3 || ranks.slow.size() < 2) return;
  struct Slow : RankRecord::Slow {
    std::size_t rank = 0;
  };
  std::vector<Slow> slow;
  for (std::size_t rank = 0; rank < ranks.slow.size(); ++rank) {
    if (3 * ranks.slow[rank].reports >= ranks.reports) slow.push_back({ranks.slow[rank], rank});
  }
  const std::size_t all = slow.size();
  std::stable_sort(slow.begin(), slow.end(), [](const Slow& a, const Slow& b) { return a.most > b.most; });
  slow.resize(std::min(all, kMostOfAKind));
  for (const Slow& one : slow) {
    found.push_back(
        {one.first,
         fmt::format("Rank {} works longer than the others of its stage in {} of {} reports, up to {:.1f} times their median{}.",
                     one.rank, one.reports, ranks.reports, one.most,
                     all > slow.size() ? fmt::format("; so do {} ranks in all", all) : "")});
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
