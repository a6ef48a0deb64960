#include "data/prepare/work_plan.hpp"

#include <algorithm>
#include <bit>

namespace cohort {

Bytes piece_bytes_for(Bytes inputs) {
  const auto wanted = static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(inputs / 256)));
  return std::clamp(wanted, 256 * kKiB, 16 * kMiB);
}

WorkPlan plan_work(const InputList& inputs, Bytes piece_bytes) {
  WorkPlan plan{.piece_bytes = piece_bytes, .bytes = inputs.bytes()};
  bool open = false;  // whether the last item takes more
  for (std::size_t i = 0; i < inputs.files.size(); ++i) {
    const InputFile& file = inputs.files[i];
    if (file.compression != Compression::none) {
      plan.items.push_back({{{i, 0}}, true, file.size});
      open = false;
      continue;
    }
    for (Count number = 0; number * piece_bytes < file.size; ++number) {
      if (!open) plan.items.emplace_back();
      plan.items.back().pieces.push_back({i, number});
      plan.items.back().bytes += std::min(piece_bytes, file.size - number * piece_bytes);
      open = plan.items.back().bytes < piece_bytes;
    }
  }
  return plan;
}

std::vector<WorkShare> deal_work(const WorkPlan& plan, int rank, int ranks) {
  const auto open_ended =
      static_cast<int>(std::count_if(plan.items.begin(), plan.items.end(), [](const WorkItem& item) { return item.open_ended; }));
  // Several ranks share a compressed text when there are fewer texts than ranks: each decompresses all, and encodes its pieces.
  const int sharing = std::max(1, open_ended > 0 ? ranks / open_ended : 1);
  std::vector<WorkShare> shares;
  int fixed = 0, open = 0;
  for (const WorkItem& item : plan.items) {
    WorkShare share;
    if (item.open_ended) {
      const int place = (rank - open++ * sharing % ranks + ranks) % ranks;
      if (place < sharing) share = {place, sharing};
    } else if (fixed++ % ranks == rank) {
      share.first = 0;
    }
    shares.push_back(share);
  }
  return shares;
}

}  // namespace cohort
