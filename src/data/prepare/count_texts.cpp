#include "data/prepare/count_texts.hpp"

namespace cohort {

void count_texts(const InputList& inputs, const WorkPlan& plan, const DocumentRules& rules, TokenizerLearner& learner, int rank,
                 int ranks, const Progress& progress) {
  const std::vector<WorkShare> shares = deal_work(plan, rank, ranks);
  PartTexts texts(inputs, plan, rules);
  Bytes passed = 0;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const WorkItem& item = plan.items[i];
    for (Count number = shares[i].first; number >= 0; number += shares[i].stride) {
      const bool there = texts.visit(
          item, number,
          [&](std::string_view text, const TextSource& source, bool, bool) {
            if (rules.chat == nullptr) return learner.add(text, source);
            for_each_text(*rules.chat, conversation_in_json_line(text), [&](std::string_view part, bool special, bool) {
              if (!special) learner.add(part, source);
            });
          },
          [](const PieceFacts&) {});
      if (!there || !item.open_ended || texts.last()) break;
    }
    passed += item.bytes;
    if (progress) progress(static_cast<double>(passed) / static_cast<double>(plan.bytes));
  }
}

}  // namespace cohort
