#include "ops/adamw.hpp"
#include "optim/optimizer_kind.hpp"

namespace cohort::adamw {
namespace {

void update(const ops::Exec& exec, const UpdateTensors& t, const Tensor& ranges, const GroupStep& step, const Tensor& decisions) {
  const ops::AdamWStep numbers{.learning_rate = static_cast<float>(step.learning_rate),
                               .beta1 = static_cast<float>(step.settings.beta1),
                               .beta2 = static_cast<float>(step.settings.beta2),
                               .epsilon = static_cast<float>(step.settings.epsilon),
                               .step = step.step};
  ops::adamw(exec, {t.values, t.compute, t.slots[0], t.slots[1], t.gradients}, ranges, numbers, decisions);
}

}  // namespace

const OptimizerRules& rules();

const OptimizerKind& kind() {
  static const OptimizerKind kKind{.rules = rules(), .update = update};
  return kKind;
}

}  // namespace cohort::adamw
