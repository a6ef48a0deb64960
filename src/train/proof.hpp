// The proof that a layout trains as one rank does: the same steps, of the same global batches, on one rank and in the layout,
// compared number by number: losses, gradient norms, every gradient and every weight after AdamW.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "train/data_setup.hpp"

namespace cohort {

/// Steps of one rank, as every rank knows them.
struct ReferenceRun {
  std::vector<double> losses, norms, rates;  // [steps]
  std::vector<double> skipped;               // [steps] 1 where loss or gradient were not finite
  /// [steps] all elements of each tensor, by its dataset's name.
  std::vector<std::map<std::string, std::vector<float>>> gradients, weights;

  /// By how much rounding alone may have moved each weight up to a step. AdamW's step is about as large for a small gradient as
  /// for a large one: what rounding changes of a gradient, relative to itself, it makes of the step, up to a step in the other
  /// direction (the bias of keys, which softmax cancels, has gradients of nothing but rounding). Zero where all gradients were
  /// exactly zero.
  std::vector<std::map<std::string, std::vector<float>>> slack;  // [steps]
};

/// Where one tensor first differed by more than is allowed.
struct Parting {
  Count step = 0;    // 1 is the first
  std::string what;  // "loss", "gradient norm", "gradient of blocks.0.norm1.weight", "weight ..."
  double difference = 0.0;
};

/// How far a layout is from one rank, at worst over all steps. Losses and norms: relative. Gradients and weights: relative to the
/// largest element of the same tensor, or to a tenth of the largest of all tensors if that is more, since a gradient that is the
/// difference of large terms is only as exact as they are. A weight's difference is besides relative to its slack over the
/// tolerance: at the tolerance it is what rounding explains. Steps that both skipped have no gradients to compare.
struct ProofResult {
  double losses = 0.0, norms = 0.0, weights = 0.0;
  double plain_weights = 0.0;     // without the slack: for people, not for the verdict
  double gradients = 0.0;         // of the first step, at the same weights
  double later_gradients = 0.0;   // of the others, at weights which rounding has moved apart
  double later_norms = 0.0;       // likewise; `norms` is of the first step
  std::vector<Parting> partings;  // of the first step that has any, in the order of the model

  /// To be held against the tolerance. Later gradients and norms may differ by kLater times as much.
  double worst() const;
  static constexpr double kLater = 10.0;  // the loss bends: a small step apart changes gradients by more than that step
};

/// What a layout may differ by, and why, in words for people.
struct Tolerance {
  double value;
  std::string reason;
};
Tolerance proof_tolerance(const PrecisionSection& precision);

/// A layout to be proved: [parallel], and how the global batch is cut.
struct Layout {
  std::string name;  // "dp 2 x tp 2, zero1"
  RunConfig config;  // validated for `ranks`
  int ranks = 1;
};

/// `run`, as one rank runs it.
RunConfig reference_config(const RunConfig& run);

/// A layout from words such as "dp=2,tp=2,data=zero1": keys of [parallel]. The global batch stays; the micro-batch too, if it
/// still divides. Throws Error(config) if the layout does not fit `ranks` ranks or the run.
Layout layout_from_words(const RunConfig& run, const std::string& words, int ranks);

/// All layouts of `ranks` ranks with every strategy that makes sense, in a fixed order; the reasons for which the run refuses
/// others go into `refused`.
std::vector<Layout> all_layouts(const RunConfig& run, int ranks, std::vector<std::string>& refused);

/// Runs the reference on rank 0 and tells all of it. // Collective over: world
ReferenceRun run_reference(const RunConfig& run, const RunData& data, Communicator& world, Count steps);

/// Runs the layout on the first layout.ranks ranks; the same result on all. // Collective over: world
ProofResult prove(const Layout& layout, const RunData& data, Communicator& world, const ReferenceRun& reference,
                  const Tolerance& tolerance);

}  // namespace cohort
