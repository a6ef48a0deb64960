// Batches, and the data sets that fill them. A data set is the same on every rank; which samples a rank takes is said by the ids
// (sampler.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/token_file.hpp"

namespace cohort {

/// Some samples, ready for a model. Token data has inputs, feature data has features. Without samples (a rank that has no part in
/// the last validation call) all vectors are empty.
struct Batch {
  Count samples = 0;                  // B
  Count tokens_per_sample = 0;        // T; 1 for features
  Count features_per_sample = 0;      // F; 0 for tokens
  std::vector<std::int32_t> inputs;   // [B, T] token ids
  std::vector<std::int32_t> targets;  // [B, T] the next token, or the class of the sample; -1 = does not count
  std::vector<float> features;        // [B, F]
  std::vector<Count> sample_ids;      // [B]

  /// Targets that count: the divisor of the mean loss.
  Count valid_targets() const;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual Count samples(Split split) const = 0;
  /// Fills `batch` (whose storage is reused) with the samples `ids`, in this order. Ids must be in [0, samples(split)).
  virtual void fill(Split split, std::span<const Count> ids, Batch& batch) const = 0;
  /// How many classes a target can be: the vocabulary size for tokens.
  virtual Count classes() const = 0;
  /// For messages: "stories.h5", "two moons".
  virtual std::string name() const = 0;

 protected:
  void check_ids(Split split, std::span<const Count> ids) const;
};

/// Windows of a token file: sample i of a split is tokens [i T, i T + T], of which the first T are inputs and the last T targets.
/// What is left behind the last whole window (fewer than T tokens) is not used. Of conversations, targets that do not count are
/// -1.
class TokenDataset : public Dataset {
 public:
  /// Throws Error(data) with the numbers if a split has fewer than T + 1 tokens.
  TokenDataset(std::shared_ptr<const TokenFile> file, Count context);

  Count samples(Split split) const override;
  void fill(Split split, std::span<const Count> ids, Batch& batch) const override;
  Count classes() const override { return file_->vocabulary_size(); }
  std::string name() const override { return file_->path(); }
  const TokenFile& file() const { return *file_; }

 private:
  // `counted` is memory for as many bytes as there are targets.
  void ignore_uncounted(Split split, Count sample, std::span<std::uint8_t> counted, std::span<std::int32_t> targets) const;

  std::shared_ptr<const TokenFile> file_;
  Count context_;
  Count samples_[2];
};

/// Two interleaved half circles of radius 1 with a little noise in the first two features; the others are noise. Class 0 is the
/// upper moon around (0, 0), class 1 the lower one around (1, 0.5). Sample i of a split is a pure function of (seed, split, i).
class TwoMoonsDataset : public Dataset {
 public:
  /// Validation has a quarter of `train_samples`, at least 1. Throws Error(config) for fewer than 2 inputs or no samples.
  TwoMoonsDataset(std::uint64_t seed, Count inputs, Count train_samples);

  Count samples(Split split) const override;
  void fill(Split split, std::span<const Count> ids, Batch& batch) const override;
  Count classes() const override { return 2; }
  std::string name() const override { return "two moons"; }

 private:
  std::uint64_t seed_;
  Count inputs_;
  Count train_samples_;
};

}  // namespace cohort
