// Which source each place in the stream of training samples takes from, when sources are mixed by weight in stages. A pure
// function of the position in the stream, computed without the steps before it.
//
// Within a stage sources follow one another in a *pattern* that repeats. It is the apportionment of Balinski and Young (the quota
// method, American Mathematical Monthly 82, 1975): of the first n places a source with the share w has floor(w n) or ceil(w n),
// whatever n is, and never fewer than of the places before. The pattern is as long as the shares need: 10 places for 0.7 and 0.3.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// The order in which sources take turns, by weight.
class SourcePattern {
 public:
  /// No pattern is longer. Shares that would need more places are rounded to multiples of 1 / kMaxLength, none above 0 to 0.
  static constexpr Count kMaxLength = 65536;

  /// Weights are at least 0, one is above; their sum need not be 1. At most kMaxLength of them are above 0.
  explicit SourcePattern(const std::vector<double>& weights);

  struct Place {
    std::size_t source;
    Count index;  // how many places before this one are of the same source
  };
  /// Of a position >= 0, in constant time.
  Place at(Count position) const;
  /// How many of the first `positions` are of a source.
  Count taken(std::size_t source, Count positions) const;
  /// At most so many of `positions` in a row are of a source, wherever they begin.
  Count most(std::size_t source, Count positions) const;

  Count length() const { return static_cast<Count>(places_.size()); }
  /// Of the `length()` places of a pattern: its share is turns / length.
  Count turns(std::size_t source) const { return static_cast<Count>(positions_of_[source].size()); }

 private:
  struct Turn {
    std::uint32_t source;
    std::uint32_t index;  // within the pattern
  };
  std::vector<Turn> places_;
  std::vector<std::vector<std::uint32_t>> positions_of_;  // of each source, ascending
};

/// A stage lasts until the next one begins.
struct MixtureStage {
  Count first_step = 0;         // 0 is the first of the run
  std::vector<double> weights;  // of each source
};

/// The stages of a run.
class Mixture {
 public:
  /// The first stage begins at step 0, the others in ascending order, all with as many weights. A step has `global_batch` places.
  Mixture(const std::vector<MixtureStage>& stages, Count global_batch);

  /// Of a position in the stream of the run: index counts from the start of the run.
  SourcePattern::Place at(Count position) const;
  /// How many of the first `positions` of the stream are of a source.
  Count taken(std::size_t source, Count positions) const;
  /// At most so many of one step, in any stage.
  Count most_of_a_step(std::size_t source) const;

 private:
  struct Stage {
    Count begin;               // position in the stream
    std::vector<Count> taken;  // of each source, by earlier stages
    SourcePattern pattern;
  };
  const Stage& stage_at(Count position) const;

  std::vector<Stage> stages_;
  Count global_batch_;
};

}  // namespace cohort
