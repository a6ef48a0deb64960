// The order in which training samples are taken: a pure function of (seed, global batch, step), never of the number of ranks.
//
// N samples are taken without end: stream position p is sample permutation(seed, p / N)(p % N), a new permutation for every epoch
// p / N. Step s takes the G positions [s G, (s + 1) G), its *slots* 0 to G - 1. So every sample is taken once per epoch, whatever
// G is; a step may span two epochs. With dp data-parallel ranks and micro-batches of mb samples, micro-batch m of rank r takes
// the slots (m dp + r) mb + b, b = 0 .. mb - 1: neighbours in the stream whatever the layout, and their union over m and r is all
// slots.
//
// Several sources are mixed by weight (mixture.hpp): the mixture says which source a position takes from, and which in number its
// sample is of those taken from that source; this number is the source's own stream position, with N its samples. The places of a
// step are shuffled, so that no rank gets more of a source than others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/batch.hpp"
#include "data/mixture.hpp"

namespace cohort {

/// Non-overlapping windows of T inputs and their targets, T + 1 tokens each (the last token of one is the first of the next):
/// floor((tokens - 1) / T). Throws Error(data) with both numbers if there is none; `what` names the tokens ("/data/x.h5:
/// /train").
Count count_windows(Count tokens, Count context, const std::string& what);

/// A permutation of [0, size) that is computed, not stored: a keyed Feistel network over the next power of 4, applied again and
/// again until the result is below `size` (cycle walking). Each index costs constant time on average, and no memory.
class Permutation {
 public:
  Permutation(Count size, std::uint64_t seed, std::uint64_t epoch);
  /// Where `index` in [0, size) goes.
  Count operator()(Count index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  std::uint32_t half_bits_;
};

class Sampler {
 public:
  /// Throws Error(config) if a step would need some sample twice (samples < global_batch), with the numbers; `what` names the
  /// data.
  Sampler(Count samples, std::uint64_t seed, Count global_batch, const std::string& what);
  /// Of a mixture: its sources in order, as parts of a data set, whose stages have a weight for each. Errors: likewise, of each
  /// source that has a weight.
  Sampler(const std::vector<DatasetPart>& sources, const std::vector<MixtureStage>& stages, std::uint64_t seed,
          Count global_batch);

  /// Of all sources.
  Count samples() const { return samples_; }
  Count global_batch() const { return global_batch_; }

  /// What a stream position >= 0 takes.
  struct Draw {
    std::size_t source;
    Count sample;  // of the source
    std::uint64_t epoch;
  };
  Draw draw_at(Count position) const;
  /// The sample of the whole data set at a stream position >= 0.
  Count sample_at(Count position) const;
  std::uint64_t epoch_of(Count position) const { return draw_at(position).epoch; }
  /// How often the first `steps` steps go through a source.
  double epochs(std::size_t source, Count steps) const;

  /// Stream positions of micro-batch `micro_step` of rank `rank` of `dp` in step `step`. All sizes must fit: dp and micro_batch
  /// divide the global batch, micro_step < global_batch / (dp micro_batch).
  std::vector<Count> local_positions(Count step, Count micro_step, Count rank, Count dp, Count micro_batch) const;
  /// The samples at these positions.
  std::vector<Count> local_samples(Count step, Count micro_step, Count rank, Count dp, Count micro_batch) const;

 private:
  Count samples_ = 0;
  std::uint64_t seed_;
  Count global_batch_;
  std::vector<DatasetPart> sources_;
  Mixture mixture_;
};

/// How the validation samples 0, 1, 2, ... are dealt out, in order and each once. Every rank makes the same number of calls, so
/// that no rank waits for another in a collective; micro-batches may be short or empty.
struct ValidationPlan {
  Count samples;      // of the split
  Count micro_batch;  // samples of one call
  Count dp;           // ranks that share the work
  Count limit = 0;    // samples over all ranks; 0 = the whole split

  /// Samples that are used: the same for any dp and micro-batch.
  Count used() const;
  /// Calls per rank: ceil(used / (dp micro_batch)).
  Count calls() const;
  /// Samples of call `call` of rank `rank`.
  std::vector<Count> ids(Count call, Count rank) const;
};

}  // namespace cohort
