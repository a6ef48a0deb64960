// keep_last: step 200 is kept, but no rule keeps it
#include <algorithm>
#include <cmath>
#include <cohort/lab09_checkpoints.hpp>
#include <cstring>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using cohort::lab::DiskFolder;
using cohort::lab::Link;

// Of two that are equally good the older one.
void keep_last(std::span<const SavedCheckpoint> saved, const RetentionRule& retention, std::vector<std::int64_t>& deleted) {
  if (retention.last == 0) return;
  std::vector<SavedCheckpoint> whole;
  std::copy_if(saved.begin(), saved.end(), std::back_inserter(whole), [](const SavedCheckpoint& one) { return one.whole; });
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.step > b.step; });  // the newest first
  const SavedCheckpoint* best = nullptr;
  for (const SavedCheckpoint& one : whole) {
    if (std::isnan(one.validation_loss)) continue;
    if (best == nullptr || one.validation_loss <= best->validation_loss) best = &one;
  }
  for (std::size_t i = static_cast<std::size_t>(retention.last); i < whole.size(); ++i) {
    const bool is_milestone = retention.every > 0 && whole[i].step % retention.every == 0;
    const bool is_best = retention.best && best == &whole[i];
    if (!is_milestone && !is_best) deleted.push_back(whole[i].step);
  }
  std::sort(deleted.begin(), deleted.end());
}
