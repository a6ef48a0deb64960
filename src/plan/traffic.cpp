#include "plan/traffic.hpp"

#include <algorithm>

#include "base/work_tape.hpp"

namespace cohort {
namespace {

// What the trace calls by these names, and which is somebody's send.
bool is_receive(const std::string& operation) { return operation == "recv"; }

// Each entry becomes at least that of the stage.
void raise(std::vector<Traffic>& largest, const CommTrace::Table& stage) {
  for (const auto& [key, totals] : stage) {
    const auto& [group, operation] = key;
    if (totals.bytes == 0 || is_receive(operation)) continue;
    const auto same = [&, g = group, o = operation](const Traffic& one) { return one.group == g && one.operation == o; };
    auto found = std::find_if(largest.begin(), largest.end(), same);
    if (found == largest.end())
      found = largest.insert(largest.end(), {group, operation, purpose_of(group, operation), totals.ranks});
    found->calls = std::max(found->calls, totals.calls);
    found->bytes = std::max(found->bytes, totals.bytes);
  }
}

}  // namespace

// What a group of ranks is for says its first name: groups that a strategy splits from it have another behind a point.
std::string purpose_of(const std::string& group, const std::string& operation) {
  if (group == "pp.tied") return "the tied weight's gradient";
  if (group == "pp") return "stream and its gradient";
  if (group == "cp" && operation == "send") return "keys and values";
  if (group == "tp" && operation == "send") return "activations and their sums";
  if (operation == "send") return "matrices to their owners and back";
  if (group == kHostGroup) return "activations";
  if (group == "tp") return operation == "all_gather" ? "activations" : "sums of activations";
  return operation == "all_gather" ? "weights" : "gradients";
}

Bytes moved_bytes(const std::string& operation, int ranks, Bytes given) {
  const auto share = [&](Bytes bytes) { return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks; };
  if (operation == "all_reduce") return 2 * share(given);
  return operation == "reduce_scatter" || operation == "all_gather" ? share(given) : given;
}

Bytes Traffic::moved() const { return moved_bytes(operation, ranks, bytes); }

std::vector<Traffic> predict_traffic(const std::vector<CountedStep>& stages) {
  std::vector<Traffic> largest;
  for (const CountedStep& stage : stages) raise(largest, stage.traffic);
  std::erase_if(largest, [](const Traffic& one) { return one.bytes <= kNumbersOfAStep; });
  return largest;
}

std::vector<Traffic> predict_traffic(const RunConfig& config) { return predict_traffic(count_stages(config)); }

}  // namespace cohort
