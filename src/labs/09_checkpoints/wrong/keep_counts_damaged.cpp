// keep_last: is among the 2 newest that are whole
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

// A damaged one takes the place of a whole one.
void keep_last(std::span<const SavedCheckpoint> saved, const RetentionRule& retention, std::vector<std::int64_t>& deleted) {
  if (retention.last == 0) return;
  std::vector<SavedCheckpoint> whole;
  whole.assign(saved.begin(), saved.end());
  std::sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.step > b.step; });  // the newest first
  const SavedCheckpoint* best = nullptr;
  for (const SavedCheckpoint& one : whole) {
    if (std::isnan(one.validation_loss)) continue;
    if (best == nullptr || one.validation_loss < best->validation_loss) best = &one;
  }
  for (std::size_t i = static_cast<std::size_t>(retention.last); i < whole.size(); ++i) {
    const bool is_milestone = retention.every > 0 && whole[i].step % retention.every == 0;
    const bool is_best = retention.best && best == &whole[i];
    if (!is_milestone && !is_best && whole[i].whole) deleted.push_back(whole[i].step);
  }
  std::sort(deleted.begin(), deleted.end());
}
