#include "data/batch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/sampler.hpp"

namespace cohort {

Count Batch::valid_targets() const {
  return static_cast<Count>(std::count_if(targets.begin(), targets.end(), [](std::int32_t target) { return target >= 0; }));
}

void Dataset::check_ids(Split split, std::span<const Count> ids) const {
  for (const Count id : ids)
    COHORT_CHECK(id >= 0 && id < samples(split), "sample {} of {} in {} of {}", id, samples(split), name_of(split), name());
}

std::string Dataset::sample_name(Split split, Count id) const {
  for (const DatasetPart& part : parts(split)) {
    if (part.name.empty() || id >= part.first + part.samples) continue;
    return fmt::format("{}/{}", part.name, id - part.first);
  }
  return std::to_string(id);
}

TokenDataset::TokenDataset(std::shared_ptr<const TokenFile> file, Count context)
    : TokenDataset(std::vector<TokenSourceFile>{{"", std::move(file)}}, context) {}

TokenDataset::TokenDataset(std::vector<TokenSourceFile> files, Count context) : files_(std::move(files)), context_(context) {
  for (const Split split : {Split::train, Split::validation}) {
    Count first = 0;
    for (const auto& [name, file] : files_) {
      const Count samples = count_windows(file->tokens(split), context, fmt::format("{}: /{}", file->path(), name_of(split)));
      parts_[static_cast<std::size_t>(split)].push_back({name, first, samples});
      first += samples;
    }
  }
}

void TokenDataset::separate_documents() {
  for (const TokenSourceFile& source : files_) documents_.add(*source.file);
}

Count TokenDataset::samples(Split split) const {
  const DatasetPart& last = parts_[static_cast<std::size_t>(split)].back();
  return last.first + last.samples;
}

std::string TokenDataset::name() const {
  if (files_.size() == 1) return files_.front().file->path();
  std::vector<std::string> names;
  for (const TokenSourceFile& source : files_) names.push_back(source.name);
  return "the mixture of " + join(names);
}

TokenDataset::Window TokenDataset::window_of(Split split, Count id) const {
  const std::vector<DatasetPart>& parts = parts_[static_cast<std::size_t>(split)];
  const auto after =
      std::upper_bound(parts.begin(), parts.end(), id, [](Count wanted, const DatasetPart& part) { return wanted < part.first; });
  const auto source = static_cast<std::size_t>(after - parts.begin()) - 1;
  return {*files_[source].file, (id - parts[source].first) * context_};
}

void TokenDataset::fill(Split split, std::span<const Count> ids, Batch& batch) const {
  check_ids(split, ids);
  const auto length = static_cast<std::size_t>(context_);
  batch.samples = static_cast<Count>(ids.size());
  batch.tokens_per_sample = context_;
  batch.features_per_sample = 0;
  batch.features.clear();
  batch.inputs.resize(ids.size() * length);
  batch.targets.resize(ids.size() * length);
  batch.first_keys.resize(documents_.empty() ? 0 : batch.inputs.size());
  batch.positions.resize(batch.first_keys.size());
  batch.sample_ids.assign(ids.begin(), ids.end());
  std::vector<std::int32_t> window(length + 1);
  std::vector<std::uint8_t> counted;
  for (std::size_t b = 0; b < ids.size(); ++b) {
    const auto [file, begin] = window_of(split, ids[b]);
    file.read(split, begin, window);
    std::copy_n(window.begin(), length, batch.inputs.begin() + static_cast<std::ptrdiff_t>(b * length));
    std::copy_n(window.begin() + 1, length, batch.targets.begin() + static_cast<std::ptrdiff_t>(b * length));
    const auto of_sample = [&](std::vector<std::int32_t>& values) { return std::span(values).subspan(b * length, length); };
    if (!file.chat_template().empty()) ignore_uncounted(file, split, begin + 1, counted, of_sample(batch.targets));
    if (documents_.empty()) continue;
    documents_.mark(file, split, begin, {of_sample(batch.first_keys), of_sample(batch.positions), of_sample(batch.targets)});
  }
}

void TokenDataset::ignore_uncounted(const TokenFile& file, Split split, Count first, std::vector<std::uint8_t>& counted,
                                    std::span<std::int32_t> targets) {
  counted.resize(targets.size());
  file.read_counted(split, first, counted);
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
