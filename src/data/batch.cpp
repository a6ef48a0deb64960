#include "data/batch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/sampler.hpp"

namespace cohort {

Count Batch::valid_targets() const {
  return static_cast<Count>(std::count_if(targets.begin(), targets.end(), [](std::int32_t target) { return target >= 0; }));
}

void Dataset::check_ids(Split split, std::span<const Count> ids) const {
  for (const Count id : ids)
    COHORT_CHECK(id >= 0 && id < samples(split), "sample {} of {} in {} of {}", id, samples(split), name_of(split), name());
}

TokenDataset::TokenDataset(std::shared_ptr<const TokenFile> file, Count context) : file_(std::move(file)), context_(context) {
  for (const Split split : {Split::train, Split::validation}) {
    samples_[static_cast<std::size_t>(split)] =
        count_windows(file_->tokens(split), context, fmt::format("{}: /{}", file_->path(), name_of(split)));
  }
}

Count TokenDataset::samples(Split split) const { return samples_[static_cast<std::size_t>(split)]; }

void TokenDataset::fill(Split split, std::span<const Count> ids, Batch& batch) const {
  check_ids(split, ids);
  const auto length = static_cast<std::size_t>(context_);
  batch.samples = static_cast<Count>(ids.size());
  batch.tokens_per_sample = context_;
  batch.features_per_sample = 0;
  batch.features.clear();
  batch.inputs.resize(ids.size() * length);
  batch.targets.resize(ids.size() * length);
  batch.sample_ids.assign(ids.begin(), ids.end());
  std::vector<std::int32_t> window(length + 1);
  std::vector<std::uint8_t> counted(file_->chat_template().empty() ? 0 : length);
  for (std::size_t b = 0; b < ids.size(); ++b) {
    file_->read(split, ids[b] * context_, window);
    std::copy_n(window.begin(), length, batch.inputs.begin() + static_cast<std::ptrdiff_t>(b * length));
    std::copy_n(window.begin() + 1, length, batch.targets.begin() + static_cast<std::ptrdiff_t>(b * length));
    if (!counted.empty()) ignore_uncounted(split, ids[b], counted, std::span(batch.targets).subspan(b * length, length));
  }
}

void TokenDataset::ignore_uncounted(Split split, Count sample, std::span<std::uint8_t> counted,
                                    std::span<std::int32_t> targets) const {
  file_->read_counted(split, sample * context_ + 1, counted);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (counted[t] == 0) targets[t] = -1;
  }
}

TwoMoonsDataset::TwoMoonsDataset(std::uint64_t seed, Count inputs, Count train_samples)
    : seed_(seed), inputs_(inputs), train_samples_(train_samples) {
  if (inputs < 2) fail(ExitCode::config, "two moons lie in a plane: model.inputs is {} and must be at least 2", inputs);
  if (train_samples < 1) fail(ExitCode::config, "data.samples is {} and must be at least 1", train_samples);
}

Count TwoMoonsDataset::samples(Split split) const {
  return split == Split::train ? train_samples_ : std::max<Count>(1, train_samples_ / 4);
}

void TwoMoonsDataset::fill(Split split, std::span<const Count> ids, Batch& batch) const {
  constexpr double kNoise = 0.1;                 // standard deviation around the half circles: they stay apart
  constexpr std::uint32_t kStream = 0x6d6f6f6e;  // "moon": no story has a number as large as (kStream << 32)
  check_ids(split, ids);
  const auto width = static_cast<std::size_t>(inputs_);
  batch.samples = static_cast<Count>(ids.size());
  batch.tokens_per_sample = 1;
  batch.features_per_sample = inputs_;
  batch.inputs.clear();
  batch.features.resize(ids.size() * width);
  batch.targets.resize(ids.size());
  batch.sample_ids.assign(ids.begin(), ids.end());
  const CounterRandom random(seed_, RandomPurpose::synth, static_cast<std::uint32_t>(split), kStream);
  for (std::size_t b = 0; b < ids.size(); ++b) {
    const std::uint64_t first = static_cast<std::uint64_t>(ids[b]) * (width + 1);  // index of the sample's random numbers
    const auto moon = static_cast<std::int32_t>(random.u32(first) & 1u);
    const double angle = std::numbers::pi * static_cast<double>(random.words(first)[1]) * 0x1.0p-32;
    const std::array<double, 2> point =
        moon == 0 ? std::array{std::cos(angle), std::sin(angle)} : std::array{1.0 - std::cos(angle), 0.5 - std::sin(angle)};
    batch.targets[b] = moon;
    for (std::size_t f = 0; f < width; ++f) {
      const double noise = random.normal(first + 1 + f);
      batch.features[b * width + f] = static_cast<float>(f < 2 ? point[f] + kNoise * noise : noise);
    }
  }
}

}  // namespace cohort
