// Counting for tokenizers that are learned: the texts go to the ranks in parts, as they do to be encoded.
#pragma once

#include "data/prepare/part_texts.hpp"
#include "data/prepare/work_plan.hpp"
#include "data/progress_callback.hpp"
#include "data/tokenizer_kind.hpp"

namespace cohort {

/// Adds the texts of this rank's share to the learner; of conversations what is encoded of them. Throws as PartTexts::visit() and
/// TokenizerLearner::add().
void count_texts(const InputList& inputs, const WorkPlan& plan, const DocumentRules& rules, TokenizerLearner& learner, int rank,
                 int ranks, const Progress& progress);

}  // namespace cohort
