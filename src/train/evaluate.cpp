#include "train/evaluate.hpp"

#include <cmath>

#include "base/error.hpp"
#include "data/sampler.hpp"
#include "observe/flight_recorder.hpp"
#include "optim/step_scalars.hpp"
#include "train/input_buffer.hpp"
#include "train/nonfinite.hpp"

namespace cohort {

Evaluation evaluate(const EvaluationContext& setup, Predictor& model, const Dataset& dataset, Communicator& group,
                    Count micro_batch, Count limit) {
  const ValidationPlan plan{dataset.samples(Split::validation), micro_batch, setup.share.ranks, limit};
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
  Batch batch;
  Count targets = 0;
  for (Count call = 0; call < plan.calls(); ++call) {
    dataset.fill(Split::validation, plan.ids(call, setup.share.rank), batch);
    setup.share.cut(batch);
    if (batch.samples > 0) {
      model.loss(context, buffer.put(as_input(batch, {})), setup.hooks);
    } else {
      model.idle_loss(setup.hooks);
    }
    targets += batch.valid_targets();
  }
  double loss = *scalars.loss().to_host().data<double>();
  Evaluation evaluation;
  if (setup.stages != nullptr) loss = all_reduce_value(*setup.stages, loss, ReduceOp::sum);
  loss = all_reduce_value(group, loss, ReduceOp::sum);
  evaluation.targets = all_reduce_value(group, targets, ReduceOp::sum);
  evaluation.samples = plan.used();
  evaluation.loss = evaluation.targets > 0 ? loss / static_cast<double>(evaluation.targets) : 0.0;
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
