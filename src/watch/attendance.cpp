#include "watch/attendance.hpp"

#include <algorithm>

namespace cohort {

Attendance::Attendance(int ranks, double now) : ranks_(static_cast<std::size_t>(ranks), Rank{.heard = now}), moved_(now) {}

void Attendance::heard(int rank, std::uint64_t progress, double now) {
  Rank& known = ranks_[static_cast<std::size_t>(rank)];
  known.heard = now;
  if (progress != known.progress) moved_ = now;
  known.progress = progress;
}

void Attendance::left(int rank, bool in_order) {
  Rank& known = ranks_[static_cast<std::size_t>(rank)];
  known.left = true;
  known.gone = known.gone || !in_order;
}

void Attendance::pardon(double now) {
  for (Rank& rank : ranks_) rank.heard = now;
  moved_ = now;
}

RankView::Link Attendance::link(int rank, double silence, double now) const {
  const Rank& known = ranks_[static_cast<std::size_t>(rank)];
  if (known.gone) return RankView::Link::gone;
  return !known.left && now - known.heard > silence ? RankView::Link::silent : RankView::Link::heard;
}

bool Attendance::is_lost(double limit, double now) const {
  const bool alone = std::any_of(ranks_.begin(), ranks_.end(),
                                 [&](const Rank& rank) { return rank.gone || (!rank.left && now - rank.heard > limit); });
  return alone || (!all_left() && now - moved_ > limit);
}

bool Attendance::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.left; });
}

}  // namespace cohort
