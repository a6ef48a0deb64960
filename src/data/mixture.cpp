#include "data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace cohort {
namespace {

// The weights are sums and quotients of a few doubles, so that what is meant to be a whole number is one but for this.
constexpr double kRounding = 1e-9;

std::vector<double> shares_of(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  COHORT_CHECK(std::isfinite(sum) && sum > 0.0, "weights with a sum of {}", sum);
  std::vector<double> shares;
  for (const double weight : weights) {
    COHORT_CHECK(weight >= 0.0, "a weight of {}", weight);
    shares.push_back(weight / sum);
  }
  return shares;
}

bool fits(const std::vector<double>& shares, Count length) {
  return std::ranges::all_of(shares, [&](double share) {
    const double turns = share * static_cast<double>(length), whole = std::round(turns);
    return std::abs(turns - whole) <= kRounding * static_cast<double>(length) && (share == 0.0 || whole >= 1.0);
  });
}

// Rounded so that the sum is right: what is left over, or missing, goes to the source that is farthest from its share.
std::vector<Count> rounded_turns(const std::vector<double>& shares, Count length) {
  std::vector<Count> turns;
  for (const double share : shares) {
    const auto whole = static_cast<Count>(std::floor(share * static_cast<double>(length)));
    turns.push_back(share > 0.0 ? std::max<Count>(1, whole) : 0);
  }
  for (Count left = length - std::accumulate(turns.begin(), turns.end(), Count{0}); left != 0; left -= left > 0 ? 1 : -1) {
    const auto lacks = [&](std::size_t i) { return shares[i] * static_cast<double>(length) - static_cast<double>(turns[i]); };
    std::size_t chosen = shares.size();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (left > 0 ? shares[i] == 0.0 : turns[i] <= 1) continue;
      if (chosen == shares.size() || (left > 0 ? lacks(i) > lacks(chosen) : lacks(i) < lacks(chosen))) chosen = i;
    }
    turns[chosen] += left > 0 ? 1 : -1;
  }
  return turns;
}

std::vector<Count> turns_of(const std::vector<double>& weights) {
  const std::vector<double> shares = shares_of(weights);
  for (Count length = 1; length < SourcePattern::kMaxLength; ++length) {
    if (!fits(shares, length)) continue;
    std::vector<Count> turns;
    for (const double share : shares) turns.push_back(std::llround(share * static_cast<double>(length)));
    return turns;
  }
  return rounded_turns(shares, SourcePattern::kMaxLength);
}

}  // namespace

SourcePattern::SourcePattern(const std::vector<double>& weights) : positions_of_(weights.size()) {
  const std::vector<Count> turns = turns_of(weights);
  const Count length = std::accumulate(turns.begin(), turns.end(), Count{0});
  std::vector<Count> taken(weights.size());
  for (Count position = 0; position < length; ++position) {
    // Of the sources that would not get ahead of their share, the one whose turn is most urgent: turns / (taken + 1) is largest.
    std::size_t chosen = turns.size();
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (taken[i] * length >= turns[i] * (position + 1)) continue;
      if (chosen == turns.size() || turns[i] * (taken[chosen] + 1) > turns[chosen] * (taken[i] + 1)) chosen = i;
    }
    places_.push_back({static_cast<std::uint32_t>(chosen), static_cast<std::uint32_t>(taken[chosen]++)});
    positions_of_[chosen].push_back(static_cast<std::uint32_t>(position));
  }
}

SourcePattern::Place SourcePattern::at(Count position) const {
  const Turn& turn = places_[static_cast<std::size_t>(position % length())];
  return {turn.source, position / length() * turns(turn.source) + turn.index};
}

Count SourcePattern::taken(std::size_t source, Count positions) const {
  const std::vector<std::uint32_t>& own = positions_of_[source];
  const auto end = std::lower_bound(own.begin(), own.end(), static_cast<std::uint32_t>(positions % length()));
  return positions / length() * turns(source) + (end - own.begin());
}

Count SourcePattern::most(std::size_t source, Count positions) const {
  const Count rest = positions % length();  // whole patterns have the same number wherever they begin
  Count most_of_rest = 0;
  for (const std::uint32_t begin : positions_of_[source])
    most_of_rest = std::max(most_of_rest, taken(source, Count{begin} + rest) - taken(source, begin));
  return positions / length() * turns(source) + most_of_rest;
}

Mixture::Mixture(const std::vector<MixtureStage>& stages, Count global_batch) : global_batch_(global_batch) {
  COHORT_CHECK(!stages.empty() && stages.front().first_step == 0, "a mixture whose stages do not begin at its first step");
  for (const MixtureStage& stage : stages) {
    const Count begin = stage.first_step * global_batch;
    std::vector<Count> before(stage.weights.size());
    if (!stages_.empty()) {
      COHORT_CHECK(begin > stages_.back().begin && before.size() == stages_.back().taken.size(), "stages out of order");
      for (std::size_t source = 0; source < before.size(); ++source) before[source] = taken(source, begin);
    }
    stages_.push_back({begin, std::move(before), SourcePattern(stage.weights)});
  }
}

const Mixture::Stage& Mixture::stage_at(Count position) const {
  const auto after = std::upper_bound(stages_.begin(), stages_.end(), position,
                                      [](Count wanted, const Stage& stage) { return wanted < stage.begin; });
  return *(after - 1);
}

SourcePattern::Place Mixture::at(Count position) const {
  const Stage& stage = stage_at(position);
  const SourcePattern::Place place = stage.pattern.at(position - stage.begin);
  return {place.source, stage.taken[place.source] + place.index};
}

Count Mixture::taken(std::size_t source, Count positions) const {
  const Stage& stage = stage_at(positions);
  return stage.taken[source] + stage.pattern.taken(source, positions - stage.begin);
}

Count Mixture::most_of_a_step(std::size_t source) const {
  Count most = 0;
  for (const Stage& stage : stages_) most = std::max(most, stage.pattern.most(source, global_batch_));
  return most;
}

}  // namespace cohort
