#include "plan/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cohort {

double Comparison::off() const {
  if (predicted == measured) return 0.0;
  if (measured == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

Bytes Comparison::limit() const { return std::max(allowance, static_cast<Bytes>(tolerance * static_cast<double>(measured))); }

bool Comparison::within() const { return std::abs(predicted - measured) <= limit(); }

std::vector<Comparison> compare_memory(const PredictedMemory& predicted, const Measurement& measured) {
  std::vector<Comparison> lines;
  for (const MemoryKind kind : kMemoryKinds) {
    lines.push_back({.what = std::string(name_of(kind)),
                     .predicted = predicted.kinds[kind],
                     .measured = measured.memory[kind],
                     .allowance = kMemoryAllowance});
  }
  lines.push_back(
      {.what = "all, of one rank", .predicted = predicted.total, .measured = measured.total, .allowance = kMemoryAllowance});
  return lines;
}

Comparison compare_others(const PredictedMemory& predicted, const Measurement& measured) {
  Bytes others = 0;
  for (const auto& [label, bytes] : measured.others) others += is_emulation_label(label) ? 0 : bytes;
  return {.what = "others", .predicted = predicted.others, .measured = others, .allowance = kOthersAllowance, .tolerance = 0.0};
}

std::vector<Comparison> compare_traffic(const std::vector<Traffic>& predicted, const Measurement& measured) {
  std::vector<Comparison> lines;
  const auto name = [](const auto& one) { return one.group + " " + one.operation; };
  const auto compared = [](const std::string& what, Bytes by_us, Bytes in_truth) {
    return Comparison{what, by_us, in_truth, kTrafficAllowance, 0.0};
  };
  for (const Traffic& one : predicted) lines.push_back(compared(name(one), one.bytes, 0));
  for (const MeasuredTraffic& one : measured.traffic) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const Comparison& line) { return line.what == name(one); });
    if (found != lines.end()) {
      found->measured = one.bytes;
    } else if (one.bytes > kTrafficAllowance) {
      lines.push_back(compared(name(one), 0, one.bytes));
    }
  }
  return lines;
}

}  // namespace cohort
