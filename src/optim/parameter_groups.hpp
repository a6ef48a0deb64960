// Which optimizer updates which parameter, with which numbers: [optimizer] and its groups, as they meet a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/run_config.hpp"
#include "optim/optimizer_kind.hpp"
#include "tensor/owned.hpp"

namespace cohort {

/// Parameters that are updated alike.
struct ParameterGroup {
  const OptimizerKind* kind;
  OptimizerSection settings;
  bool all_decay = false;  // the group names its decay: it is that of norms and biases, too

  float decay_of(const Parameter& parameter) const;
};

/// Whether a parameter decays that belongs to no group with a decay of its own.
using OwnDecay = std::function<bool(const Parameter&)>;

/// From now on this function decides instead of Parameter::decays; an empty one ends it. Before any optimizer is made: not
/// thread-safe. For the course, where a learner has written it.
void use_own_decay(OwnDecay decays);

class ParameterGroups {
 public:
  /// `section` is validated.
  explicit ParameterGroups(const OptimizerSection& section);

  /// The first group of the run file that has a pattern of its name, or what [optimizer] says. An optimizer of whole matrices
  /// takes matrices of blocks, and of a group that names it, everything: Error (config) if that is not a matrix.
  const ParameterGroup& of(const Parameter& parameter) const;
  const std::vector<ParameterGroup>& all() const { return groups_; }

  /// Error (config) names the run file's line, if a pattern is of no parameter of the whole model, or a group wants what cannot
  /// be. "" or, if there is more than one group with parameters, how many belong to which optimizer, in words.
  std::string check(const ParameterRegistry& whole_model) const;

 private:
  struct Rule {  // of a group of the run file, or of what is in none
    std::vector<std::string> match;
    std::string origin;
    bool named;              // the group names its optimizer
    std::size_t own, other;  // groups_: of what the optimizer takes, and of what it leaves to another
  };
  const Rule& rule_of(const std::string& parameter) const;
  std::size_t add(const OptimizerRules& rules, const OptimizerSection& settings, bool all_decay);

  std::vector<ParameterGroup> groups_;
  std::vector<Rule> rules_;  // the last one is of what is in no group
};

/// Elements [begin, end) of flat tensors whose pieces belong to one group; `pieces` count from `begin`. What pads pieces belongs
/// to those before.
struct UpdateRun {
  Count begin, end;
  const ParameterGroup* group;
  std::vector<OwnedPiece> pieces;
};

/// The runs of a segment of `elements`, in order; none if it has no pieces. The groups outlive them.
std::vector<UpdateRun> runs_of(const std::vector<OwnedPiece>& pieces, Count elements, const ParameterGroups& groups);

/// The run as a segment of its own. Tensors that are undefined stay so.
OwnedSegment segment_of(const OwnedSegment& segment, const UpdateRun& run);

/// Elements [begin, end) of a run as DecayRanges on the host, which count from `begin`. Neighbouring pieces with the same decay
/// share a range.
Tensor decay_ranges(const OwnedSegment& run, const ParameterGroup& group, Count begin, Count end);

}  // namespace cohort
