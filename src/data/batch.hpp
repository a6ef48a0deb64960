// Batches, and the data sets that fill them. A data set is the same on every rank; which samples a rank takes is said by the ids
// (sampler.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/separate_documents.hpp"
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
  // Where documents are separate (separate_documents.hpp), else empty.
  std::vector<std::int32_t> first_keys;  // [B, T] where each token's document begins in its sample
  std::vector<std::int32_t> positions;   // [B, T] each token's place in its document
  std::vector<Count> sample_ids;         // [B]

  /// Targets that count: the divisor of the mean loss.
  Count valid_targets() const;
};

/// A range of the samples of a split that is counted and measured by itself: a source of a mixture.
struct DatasetPart {
  std::string name;  // "" if the data set has no parts
  Count first = 0;   // its first sample
  Count samples = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual Count samples(Split split) const = 0;
  /// In order; together all samples of the split.
  virtual std::vector<DatasetPart> parts(Split split) const { return {{"", 0, samples(split)}}; }
  /// Fills `batch` (whose storage is reused) with the samples `ids`, in this order. Ids must be in [0, samples(split)).
  virtual void fill(Split split, std::span<const Count> ids, Batch& batch) const = 0;
  /// How many classes a target can be: the vocabulary size for tokens.
  virtual Count classes() const = 0;
  /// For logs: "12", or of a data set with parts "web/12".
  std::string sample_name(Split split, Count id) const;
  /// For messages: "stories.h5", "two moons".
  virtual std::string name() const = 0;

 protected:
  void check_ids(Split split, std::span<const Count> ids) const;
};

/// A token file as a source of training data.
struct TokenSourceFile {
  std::string name;  // "" if it is the only one
  std::shared_ptr<const TokenFile> file;
};

/// Windows of token files: sample i of a split of a file is tokens [i T, i T + T], of which the first T are inputs and the last T
/// targets. What is left behind the last whole window (fewer than T tokens) is not used. The samples of a file follow those of
/// the file before it. Of conversations, targets that do not count are -1.
class TokenDataset : public Dataset {
 public:
  /// Throws Error(data) with the numbers if a split has fewer than T + 1 tokens.
  TokenDataset(std::shared_ptr<const TokenFile> file, Count context);
  /// Of several files, with the same tokenizer.
  TokenDataset(std::vector<TokenSourceFile> files, Count context);

  /// From now on documents are separate: fill() says where they begin, and no target crosses from one to the next. Throws
  /// Error(data) if a file does not know.
  void separate_documents();
  Count samples(Split split) const override;
  std::vector<DatasetPart> parts(Split split) const override { return parts_[static_cast<std::size_t>(split)]; }
  void fill(Split split, std::span<const Count> ids, Batch& batch) const override;
  Count classes() const override { return files_.front().file->vocabulary_size(); }
  /// The path of the file, or "the mixture of web, code".
  std::string name() const override;

 private:
  struct Window {
    const TokenFile& file;
    Count begin;  // its first token
  };
  Window window_of(Split split, Count id) const;

  // Makes targets, which are the tokens from `first` on, -1 where those do not count; `counted` is memory for it.
  static void ignore_uncounted(const TokenFile& file, Split split, Count first, std::vector<std::uint8_t>& counted,
                               std::span<std::int32_t> targets);

  std::vector<TokenSourceFile> files_;
  Count context_;
  SeparateDocuments documents_;
  std::vector<DatasetPart> parts_[2];  // of each split, a file each
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
