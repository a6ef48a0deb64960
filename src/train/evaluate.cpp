#include "train/evaluate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/sampler.hpp"
#include "observe/flight_recorder.hpp"
#include "optim/step_scalars.hpp"
#include "train/input_buffer.hpp"
#include "train/nonfinite.hpp"
#include "train/train_step.hpp"

namespace cohort {
namespace {

// What a rank counts of the targets that it has seen.
struct TargetCounts {
  Count valid = 0;
  Count bytes = 0;  // of the text that they stand for
  Count right = 0;  // classes that the model finds likeliest

  void add(const Batch& batch, std::span<const std::int32_t> token_bytes) {
    valid += batch.valid_targets();
    if (token_bytes.empty()) return;
    for (const std::int32_t target : batch.targets) bytes += target < 0 ? 0 : token_bytes[static_cast<std::size_t>(target)];
  }
};

// Of equal logits the first, as in generating.
Count right_answers(const Tensor& logits, const Batch& batch) {
  Count right = 0;
  const auto classes = static_cast<std::size_t>(logits.shape().columns());
  for (std::size_t b = 0; b < batch.targets.size(); ++b) {
    const std::span<const float> row = logits.span<float>().subspan(b * classes, classes);
    right += std::max_element(row.begin(), row.end()) - row.begin() == batch.targets[b] ? 1 : 0;
  }
  return right;
}

}  // namespace

EvaluationContext EvaluationContext::of(TrainStep& step, const Mesh& mesh, std::span<const std::int32_t> token_bytes) {
  const SequenceSplit* const cut = step.ring() != nullptr ? &step.ring()->split() : nullptr;
  return {step.exec(), step.strategy(),           step.activations(), BatchShare::of(mesh, cut),
          step.ring(), &mesh.host_axis(Axis::pp), token_bytes};
}

nlohmann::ordered_json figures_of(const Evaluation& evaluation) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  if (evaluation.targets > 0) figures["validation_loss"] = evaluation.loss;
  if (evaluation.bits_per_byte) figures["validation_bits_per_byte"] = *evaluation.bits_per_byte;
  if (evaluation.accuracy) figures["validation_accuracy"] = *evaluation.accuracy;
  for (const SourceEvaluation& source : evaluation.sources) {
    figures["validation_loss_of"][source.name] = source.loss;
    if (source.bits_per_byte) figures["validation_bits_per_byte_of"][source.name] = *source.bits_per_byte;
  }
  if (evaluation.choices) {
    figures["choices_accuracy"] = evaluation.choices->accuracy;
    figures["choices_accuracy_normalised"] = evaluation.choices->accuracy_normalised;
  }
  return figures;
}

std::string other_figures_in_words(const Evaluation& evaluation) {
  std::vector<std::string> losses;
  for (const SourceEvaluation& source : evaluation.sources) losses.push_back(fmt::format("{} {:.4f}", source.name, source.loss));
  std::string words = losses.empty() ? "" : fmt::format(" ({})", join(losses));
  if (evaluation.bits_per_byte) words += fmt::format(", {:.4f} bits per byte", *evaluation.bits_per_byte);
  if (evaluation.accuracy) words += fmt::format(", accuracy {:.2f} %", 100.0 * *evaluation.accuracy);
  if (const auto& choices = evaluation.choices) {
    words += fmt::format(", choices {:.2f} %, normalised by length {:.2f} %", 100.0 * choices->accuracy,
                         100.0 * choices->accuracy_normalised);
  }
  return words;
}

std::vector<std::int32_t> bytes_of_tokens(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> bytes(static_cast<std::size_t>(tokenizer.vocabulary_size()));
  for (std::size_t id = 0; id < bytes.size(); ++id)
    bytes[id] = static_cast<std::int32_t>(tokenizer.text_of(static_cast<std::int32_t>(id)).size());
  for (const SpecialToken& special : tokenizer.special_tokens()) bytes[static_cast<std::size_t>(special.id)] = 0;
  return bytes;
}

namespace {

// Of the samples of a part of the split, over all ranks.
struct PartSums {
  double loss = 0.0;  // the sum
  Count targets = 0, bytes = 0, right = 0, samples = 0;
  bool classifies = false;

  void operator+=(const PartSums& other) {
    loss += other.loss;
    targets += other.targets;
    bytes += other.bytes;
    right += other.right;
    samples += other.samples;
    classifies |= other.classifies;
  }
  double mean_loss() const { return loss / static_cast<double>(targets); }
  std::optional<double> bits_per_byte() const {
    return bytes > 0 ? std::optional(loss / std::numbers::ln2 / static_cast<double>(bytes)) : std::nullopt;
  }
};

// Collective over: group, and the ranks that hold parts of the model
PartSums measure_part(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, const DatasetPart& part,
                      Communicator& group, Count micro_batch, Count limit) {
  const ValidationPlan plan{part.samples, micro_batch, setup.share.ranks, limit};
  const ModelStorage& storage = model.storage();
  const StepScalars scalars(storage.device);
  const StepContext context{.exec = setup.exec,
                            .dtype = storage.compute,
                            .activations = &setup.activations,
                            .loss_sum = scalars.loss(),
                            .sequence = setup.sequence,
                            .inspect = setup.inspect,
                            .heartbeat = FlightRecorder::heartbeat_of_process};
  InputBuffer buffer(storage.device, dataset.classes());
  bool classifies = false;
  Batch batch;
  TargetCounts counts;
  for (Count call = 0; call < plan.calls(); ++call) {
    std::vector<Count> ids = plan.ids(call, setup.share.rank);
    for (Count& id : ids) id += part.first;
    dataset.fill(Split::validation, ids, batch);
    setup.share.cut(batch);
    classifies = batch.features_per_sample > 0;
    counts.add(batch, setup.token_bytes);
    if (batch.samples == 0) {
      model.idle_loss(setup.hooks);
      if (classifies) model.idle_loss(setup.hooks);
      continue;
    }
    const ModelInput input = buffer.put(as_input(batch, {}));
    model.loss(context, input, setup.hooks);
    if (!classifies) continue;
    const Tensor logits = Tensor::zeros("evaluate.logits", {batch.samples, model.classes()});
    model.last_logits(context, input, logits, setup.hooks);
    counts.right += right_answers(logits, batch);
  }
  double loss = *scalars.loss().to_host().data<double>();
  if (setup.stages != nullptr) loss = all_reduce_value(*setup.stages, loss, ReduceOp::sum);
  loss = all_reduce_value(group, loss, ReduceOp::sum);
  std::array<Count, 3> sums{counts.valid, counts.bytes, counts.right};
  all_reduce(group, std::span<Count>(sums), ReduceOp::sum);
  return {loss, sums[0], sums[1], sums[2], plan.used(), classifies};
}

}  // namespace

Evaluation evaluate(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, Communicator& group,
                    Count micro_batch, Count limit) {
  PartSums all;
  std::vector<SourceEvaluation> sources;
  for (const DatasetPart& part : dataset.parts(Split::validation)) {
    const PartSums one = measure_part(setup, model, dataset, part, group, micro_batch, limit);
    if (!part.name.empty() && one.targets > 0) sources.push_back({part.name, one.mean_loss(), one.bits_per_byte()});
    all += one;
  }
  if (all.targets == 0) throw SharedError(ExitCode::data, fmt::format("{}: no target of its /validation counts", dataset.name()));
  Evaluation evaluation{.loss = all.mean_loss(),
                        .targets = all.targets,
                        .samples = all.samples,
                        .bits_per_byte = all.bits_per_byte(),
                        .sources = sources};
  if (all.classifies) evaluation.accuracy = static_cast<double>(all.right) / static_cast<double>(all.targets);
  return evaluation;
}

void require_finite(Communicator& world, const std::string& what, const Evaluation& evaluation, EvaluationContext setup,
                    Predictor& model, const Dataset& dataset, Communicator& group, Count micro_batch, Count limit) {
  if (all_reduce_value(world, std::isfinite(evaluation.loss) ? 0 : 1, ReduceOp::max) == 0) return;
  FirstNotFinite search;
  setup.inspect = search.inspector();
  evaluate(setup, model, dataset, group, micro_batch, limit);
  const std::string where = first_not_finite_in_words(world, search.unit());
  throw SharedError(
      ExitCode::training,
      fmt::format("{}: the validation loss is {}; {}", what, std::isinf(evaluation.loss) ? "infinite" : "not a number",
                  where.empty() ? "all layers' outputs are finite: the output matrix or the logits are not" : where));
}

}  // namespace cohort
