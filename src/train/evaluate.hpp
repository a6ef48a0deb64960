// How good a model is on a validation split. The loss is the sum over all valid targets divided by their number, whatever the
// number of ranks, the layout and the micro-batch: the samples are the same, and are added up in fp64. What is left of them is
// the rounding of fp32 products of other shapes, some 1e-7 of the loss; 1e-6 is what tests allow.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "models/predictor.hpp"
#include "tensor/arena.hpp"
#include "train/step_batches.hpp"

namespace cohort {

class TrainStep;

/// The share of multiple-choice questions (train/choices.hpp) whose right ending has the highest score; of equal scores the first
/// ending is taken.
struct ChoiceScores {
  Count questions = 0;
  double accuracy = 0.0;             // by the log-likelihood of the ending, summed over its tokens
  double accuracy_normalised = 0.0;  // by that over the bytes of the ending, which does not prefer short ones
};

/// Of a source of a mixture.
struct SourceEvaluation {
  std::string name;
  double loss = 0.0;                         // nats, mean over its valid targets
  std::optional<double> bits_per_byte = {};  // of its text
};

struct Evaluation {
  double loss = 0.0;  // nats, mean over the valid targets
  Count targets = 0;  // valid targets; 0: no loss was measured
  Count samples = 0;
  std::optional<double> bits_per_byte = {};    // of text: the loss of all targets over the bytes that they stand for
  std::optional<double> accuracy = {};         // of a classifier: the share of samples whose likeliest class is theirs
  std::optional<ChoiceScores> choices = {};    // of questions, if some were asked
  std::vector<SourceEvaluation> sources = {};  // of a mixture; `loss` is over the targets of all
};

/// Under the names that metrics.jsonl and `cohort eval --json` have for what was measured: validation_loss,
/// validation_bits_per_byte, validation_accuracy, validation_loss_of and validation_bits_per_byte_of (of each
/// source), choices_accuracy, choices_accuracy_normalised.
nlohmann::ordered_json figures_of(const Evaluation& evaluation);
/// " (web 1.2345, code 0.9876), 1.781 bits per byte, accuracy 98.44 %": what there is beside the loss, or "".
std::string other_figures_in_words(const Evaluation& evaluation);

/// What evaluate() needs of a run beside its model and data.
struct EvaluationContext {
  ops::Exec exec;
  Hooks& hooks;  // of the strategy that keeps the parameters
  Arena& activations;
  BatchShare share;                                                     // of each global micro-batch
  const ContextParallel* sequence = nullptr;                            // if samples are cut
  Communicator* stages = nullptr;                                       // of the pipeline, of which the last has the loss
  std::span<const std::int32_t> token_bytes = {};                       // of each token, for bits per byte; none: not of text
  std::function<void(const std::string&, const Tensor&)> inspect = {};  // as in StepContext

  /// Of a run that trains.
  static EvaluationContext of(TrainStep& step, const Mesh& mesh, std::span<const std::int32_t> token_bytes);
};

/// How many bytes of text each token stands for: special tokens for none, since no text spells them.
std::vector<std::int32_t> bytes_of_tokens(const Tokenizer& tokenizer);

/// Each rank takes its share of the split's samples, `micro_batch` at a time; `limit` samples over all ranks, of a mixture of
/// each source, 0 = the whole split. `group` are the ranks with different shares. The loss may be NaN or infinite: see
/// require_finite(). Throws SharedError(data) if no target counts. // Collective over: group, and the ranks that hold parts of
/// the model
Evaluation evaluate(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, Communicator& group,
                    Count micro_batch, Count limit);

/// Throws SharedError(training) if the loss is NaN or infinite on any rank: evaluates again to name the rank and the first unit
/// whose output is not finite. The other arguments are those of evaluate(). `what` begins the message. // Collective over: world
void require_finite(Communicator& world, const std::string& what, const Evaluation& evaluation, EvaluationContext setup,
                    Predictor& model, const Dataset& dataset, Communicator& group, Count micro_batch, Count limit);

}  // namespace cohort
