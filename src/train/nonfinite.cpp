#include "train/nonfinite.hpp"

#include <algorithm>
#include <cmath>

#include "comm/consensus.hpp"
#include "tensor/convert.hpp"

namespace cohort {

bool all_finite(const Tensor& tensor) {
  const Tensor values = to_host_fp32(tensor);
  return std::ranges::all_of(values.span<float>(), [](float value) { return std::isfinite(value); });
}

std::function<void(const std::string&, const Tensor&)> FirstNotFinite::inspector() {
  return [this](const std::string& unit, const Tensor& output) {
    if (unit_.empty() && !all_finite(output)) unit_ = unit;
  };
}

std::string first_not_finite_in_words(Communicator& world, const std::string& own) {
  const int first = all_reduce_value(world, own.empty() ? 0 : world.size() - world.rank(), ReduceOp::max);
  if (first == 0) return "";
  const int rank = world.size() - first;
  return fmt::format("the first non-finite output is that of {} on rank {}", broadcast_text(world, own, rank), rank);
}

}  // namespace cohort
