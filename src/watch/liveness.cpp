#include "watch/liveness.hpp"

#include <algorithm>

namespace cohort {

Liveness::Liveness(int ranks, double now) : ranks_(static_cast<std::size_t>(ranks), Rank{.heard = now}), moved_(now) {}

void Liveness::heard(int rank, std::uint64_t progress, double now) {
  Rank& known = ranks_[static_cast<std::size_t>(rank)];
  known.heard = now;
  if (progress != known.progress) moved_ = now;
  known.progress = progress;
}

void Liveness::left(int rank, bool in_order) {
  Rank& known = ranks_[static_cast<std::size_t>(rank)];
  known.left = true;
  known.gone = known.gone || !in_order;
}

void Liveness::pardon(double now) {
  for (Rank& rank : ranks_) rank.heard = now;
  moved_ = now;
}

RankView::Link Liveness::link(int rank, double silence, double now) const {
  const Rank& known = ranks_[static_cast<std::size_t>(rank)];
  if (known.gone) return RankView::Link::gone;
  return !known.left && now - known.heard > silence ? RankView::Link::silent : RankView::Link::heard;
}

bool Liveness::is_lost(double limit, double now) const {
  const bool alone = std::any_of(ranks_.begin(), ranks_.end(),
                                 [&](const Rank& rank) { return rank.gone || (!rank.left && now - rank.heard > limit); });
  return alone || (!all_left() && now - moved_ > limit);
}

bool Liveness::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.left; });
}

}  // namespace cohort
