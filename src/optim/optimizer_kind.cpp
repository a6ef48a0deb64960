#include "optim/optimizer_kind.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace cohort {

const OptimizerKind& optimizer_kind_of(const OptimizerRules& rules) {
  const auto& all = all_optimizer_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OptimizerKind* kind) { return &kind->rules == &rules; });
  COHORT_CHECK(found != all.end(), "optimizer {} has rules, but no kind", rules.kind);
  const OptimizerKind& kind = **found;
  COHORT_CHECK((kind.matrices != nullptr) == rules.whole_matrices && (kind.update != nullptr) != rules.whole_matrices,
               "optimizer {} updates elements or whole matrices, as its rules say", rules.kind);
  for (const SlotSpec& slot : rules.slots) {
    COHORT_CHECK(slot.name != "master", "slot {} of optimizer {}: checkpoints keep exact weights under that name", slot.name,
                 rules.kind);
    COHORT_CHECK(slot.dtype == DType::f32, "slot {} of optimizer {}: checkpoints and offload carry fp32", slot.name, rules.kind);
  }
  return kind;
}

}  // namespace cohort
