#include "data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// Streams of permutations of one seed: of the samples of source s in epoch e, number (s << 32) + e, so that a single source has
// the numbers of its epochs; and of the places of each step.
constexpr std::uint64_t kPlacesOfSteps = std::uint64_t{0xffffffff} << 32;

constexpr std::uint32_t kRounds = 6;  // four are enough to look random; two more, since the halves of small sets have few bits

}  // namespace

Count count_windows(Count tokens, Count context, const std::string& what) {
  COHORT_CHECK(context > 0, "context of {}", context);
  if (tokens - 1 < context) {
    fail(ExitCode::data, "{} has {}, a context of {} needs at least {}: set model.context to {} or less, or prepare more text",
         what, counted(tokens, "token"), context, context + 1, std::max<Count>(tokens - 1, 1));
  }
  return (tokens - 1) / context;
}

Permutation::Permutation(Count size, std::uint64_t seed, std::uint64_t epoch)
    : size_(static_cast<std::uint64_t>(size)), seed_(seed), epoch_(epoch) {
  COHORT_CHECK(size > 0, "a permutation of {} items", size);
  half_bits_ = std::max(1u, static_cast<std::uint32_t>(std::bit_width(size_ - 1) + 1) / 2);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const CounterRandom random(seed_, RandomPurpose::shuffle, static_cast<std::uint32_t>(epoch_),
                             static_cast<std::uint32_t>(epoch_ >> 32));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (random.u32((round << 32) | right) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

Count Permutation::operator()(Count index) const {
  auto value = static_cast<std::uint64_t>(index);
  COHORT_CHECK(value < size_, "item {} of {}", index, size_);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<Count>(value);
}

Sampler::Sampler(Count samples, std::uint64_t seed, Count global_batch, const std::string& what)
    : samples_(samples),
      seed_(seed),
      global_batch_(global_batch),
      sources_{{what, 0, samples}},
      mixture_({{.first_step = 0, .weights = {1.0}}}, global_batch) {
  COHORT_CHECK(samples > 0 && global_batch > 0, "{} samples, global batch {}", samples, global_batch);
  if (samples < global_batch) {
    fail(ExitCode::config,
         "{}: {} {} fewer than one global batch of {}: set train.global_batch to {} or less, shorten model.context, or "
         "give more data",
         what, counted(samples, "sample"), samples == 1 ? "is" : "are", global_batch, samples);
  }
}

Sampler::Sampler(const std::vector<DatasetPart>& sources, const std::vector<MixtureStage>& stages, std::uint64_t seed,
                 Count global_batch)
    : seed_(seed), global_batch_(global_batch), sources_(sources), mixture_(stages, global_batch) {
  COHORT_CHECK(global_batch > 0, "global batch {}", global_batch);
  for (std::size_t source = 0; source < sources.size(); ++source) {
    samples_ += sources[source].samples;
    const Count most = mixture_.most_of_a_step(source);
    if (sources[source].samples >= most) continue;
    fail(
        ExitCode::config,
        "data.sources: '{}' has {}, and a step takes up to {}: lower its weight or train.global_batch, shorten model.context, or "
        "give more data",
        sources[source].name, counted(sources[source].samples, "sample"), most);
  }
}

Sampler::Draw Sampler::draw_at(Count position) const {
  Count place = position;
  if (sources_.size() > 1) {
    const Count step = position / global_batch_, slot = position % global_batch_;
    const Permutation places(global_batch_, seed_, kPlacesOfSteps | static_cast<std::uint64_t>(step));
    place = step * global_batch_ + places(slot);
  }
  const auto [source, index] = mixture_.at(place);
  const Count samples = sources_[source].samples;
  const auto epoch = static_cast<std::uint64_t>(index / samples);
  const Permutation order(samples, seed_, (std::uint64_t{source} << 32) + epoch);
  return {source, order(index % samples), epoch};
}

Count Sampler::sample_at(Count position) const {
  const Draw draw = draw_at(position);
  return sources_[draw.source].first + draw.sample;
}

double Sampler::epochs(std::size_t source, Count steps) const {
  return static_cast<double>(mixture_.taken(source, steps * global_batch_)) / static_cast<double>(sources_[source].samples);
}

std::vector<Count> Sampler::local_positions(Count step, Count micro_step, Count rank, Count dp, Count micro_batch) const {
  COHORT_CHECK(step >= 0 && dp > 0 && rank >= 0 && rank < dp && micro_batch > 0 && micro_step >= 0,
               "rank {} of {}, step {}, micro step {}", rank, dp, step, micro_step);
  COHORT_CHECK(
      global_batch_ % micro_batch == 0 && global_batch_ / micro_batch % dp == 0 && micro_step < global_batch_ / micro_batch / dp,
      "micro-batch {} of {} samples on {} ranks is not part of a global batch of {}", micro_step, micro_batch, dp, global_batch_);
  COHORT_CHECK(step < std::numeric_limits<Count>::max() / global_batch_ - 1,
               "step {} with a global batch of {} is beyond 64 bits", step, global_batch_);
  std::vector<Count> positions(static_cast<std::size_t>(micro_batch));
  const Count first_slot = (micro_step * dp + rank) * micro_batch;
  for (Count b = 0; b < micro_batch; ++b) positions[static_cast<std::size_t>(b)] = step * global_batch_ + first_slot + b;
  return positions;
}

std::vector<Count> Sampler::local_samples(Count step, Count micro_step, Count rank, Count dp, Count micro_batch) const {
  std::vector<Count> samples = local_positions(step, micro_step, rank, dp, micro_batch);
  for (Count& position : samples) position = sample_at(position);
  return samples;
}

Count ValidationPlan::used() const { return limit > 0 ? std::min(limit, samples) : samples; }

Count ValidationPlan::calls() const {
  const Count micro_batches = (used() + micro_batch - 1) / micro_batch;
  return (micro_batches + dp - 1) / dp;
}

std::vector<Count> ValidationPlan::ids(Count call, Count rank) const {
  COHORT_CHECK(call >= 0 && call < calls() && rank >= 0 && rank < dp, "validation call {} of {}, rank {} of {}", call, calls(),
               rank, dp);
  std::vector<Count> result;
  const Count first = (call * dp + rank) * micro_batch;
  for (Count id = first; id < std::min(first + micro_batch, used()); ++id) result.push_back(id);
  return result;
}

}  // namespace cohort
