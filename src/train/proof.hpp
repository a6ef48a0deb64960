// The proof that a layout trains as one rank does. It goes by induction: whatever weights and moments the layout has reached, its
// next step must be the one that one rank would take from them. Beside the layout, one rank (the reference) is given the
// layout's weights before each step and computes the step's loss, gradient norm and gradients of the same global batch:
//
//   loss, norm, gradients   the layout's against the reference's, at the same weights: they differ by the rounding of sums in
//                           another order, at every step alike, and by nothing that steps before have amplified;
//   weights                 the layout's after its step against what the reference's optimizer makes of the layout's own
//                           gradients, with slots that it has kept from them since the first step. Both compute the same few
//                           operations on the same numbers, element by element, and differ by their last bits.
//
// Why weights are not compared with those of one rank that goes its own way: AdamW's step is m/(sqrt(v) + epsilon), about as
// large for a small gradient as for a large one. Its change by an error e of the gradient g is about rate * e / (|g| + epsilon),
// up to two whole steps where |g| < e. A gradient of nothing but rounding (the bias of keys, which softmax cancels: exactly 0 in
// one layout, -4e-12 in another) so moves weights apart by rounding only, and the gradients of later steps, at weights which
// differ, with them: no bound of them would be both tight enough to catch faults and wide enough for every run. Here rounding
// enters where it arises, in sums, and the allowance follows from that.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "train/data_setup.hpp"
#include "train/train_step.hpp"

namespace cohort {

/// What loss, norm and gradients may differ by, and why, in words for people.
struct Tolerance {
  double value;
  std::string reason;
};
Tolerance proof_tolerance(const PrecisionSection& precision);

/// What a weight may differ by, relative to its size plus the step's learning rate, in every precision, as AdamW computes in
/// fp32: storing it rounds by 2^-24 of its size, and the update, of size rate * O(1), comes out of some ten operations, whose
/// order and fused multiply-adds are the compiler's affair, with moments that have added up their rounding over 1/(1 - beta)
/// steps.
inline constexpr double kUpdateTolerance = 1e-6;

/// Where one tensor first differed by more than is allowed.
struct StepDifference {
  Count step = 0;    // 1 is the first
  std::string what;  // "loss", "gradient norm", "gradient of blocks.0.norm1.weight", "weight ..."
  double difference = 0.0;
};

/// How far a layout is from one rank, at worst over all steps. Losses and norms: relative. Gradients: relative to the largest
/// element of the same tensor, or to a tenth of the largest of all tensors if that is more, since a gradient that is the
/// difference of large terms is only as exact as they are. Weights: see kUpdateTolerance. Steps that both skipped have no norms
/// and gradients to compare.
struct ProofResult {
  double losses = 0.0, norms = 0.0, gradients = 0.0, weights = 0.0;
  double curve = 0.0;  // losses, relative to those of one rank that went its own way: for people, not for the verdict
  std::vector<StepDifference> differences;  // of the first step that has any, in the order of the model

  bool equal() const { return differences.empty(); }
};

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

/// The losses of `steps` steps of one rank, which rank 0 runs by itself. // Collective over: world
std::vector<double> losses_of_one_rank(const RunConfig& run, const RunData& data, Communicator& world, Count steps);

/// Called on every rank of the layout when it has done a step (0 is the first), before that is looked at: tests plant faults.
using AfterStep = std::function<void(Count step, TrainStep& train_step, const StepResult& result)>;

/// Runs the layout of `run` on the first layout.ranks ranks, and the reference on rank 0 beside it, for as many steps as `curve`,
/// of losses_of_one_rank(), has; the same result on all. Throws Error(memory) if a GPU has no room for both.
// Collective over: world
ProofResult prove(const RunConfig& run, const Layout& layout, const RunData& data, Communicator& world,
                  const std::vector<double>& curve, const Tolerance& tolerance, const AfterStep& after_step = {});

}  // namespace cohort
