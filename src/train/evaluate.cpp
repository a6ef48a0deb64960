#include "train/evaluate.hpp"

#include "data/sampler.hpp"
#include "train/step_batches.hpp"

namespace cohort {

Evaluation evaluate(Model& model, Arena& activations, const Dataset& dataset, Communicator& group, Count micro_batch,
                    Count limit) {
  const ValidationPlan plan{dataset.samples(Split::validation), micro_batch, group.size(), limit};
  StepContext context;
  context.activations = &activations;
  Batch batch;
  double loss = 0.0;
  Count targets = 0;
  for (Count call = 0; call < plan.calls(); ++call) {
    dataset.fill(Split::validation, plan.ids(call, group.rank()), batch);
    if (batch.samples > 0) loss += model.loss(context, as_input(batch, {}));
    targets += batch.valid_targets();
  }
  Evaluation evaluation;
  loss = all_reduce_value(group, loss, ReduceOp::sum);
  evaluation.targets = all_reduce_value(group, targets, ReduceOp::sum);
  evaluation.samples = plan.used();
  evaluation.loss = evaluation.targets > 0 ? loss / static_cast<double>(evaluation.targets) : 0.0;
  return evaluation;
}

}  // namespace cohort
