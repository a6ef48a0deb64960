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

bool Comparison::equal() const {
  const auto allowed = std::max(floor, static_cast<Bytes>(kTolerance * static_cast<double>(measured)));
  return std::abs(predicted - measured) <= allowed;
}

bool Comparison::small() const { return equal() && !(std::abs(off()) <= kTolerance); }

std::vector<Comparison> compare_memory(const PredictedMemory& predicted, const Measurement& measured) {
  std::vector<Comparison> lines;
  for (const MemoryKind kind : kMemoryKinds) {
    lines.push_back({.what = std::string(name_of(kind)),
                     .predicted = predicted.kinds[kind],
                     .measured = measured.memory[kind],
                     .floor = kind == MemoryKind::activations ? kActivationFloor : kMemoryFloor});
  }
  lines.push_back(
      {.what = "all, of one rank", .predicted = predicted.total, .measured = measured.total, .floor = kActivationFloor});
  return lines;
}

Comparison compare_others(const Measurement& measured) {
  Bytes others = 0, all = 0;
  for (const auto& [label, bytes] : measured.others) others += is_emulation_label(label) ? 0 : bytes;
  for (const MemoryKind kind : kMemoryKinds) all += measured.memory[kind];
  const auto share = static_cast<Bytes>(kTolerance * static_cast<double>(all));
  return {.what = "others", .measured = others, .floor = std::max(kOthersFloor, share)};
}

std::vector<Comparison> compare_traffic(const std::vector<Traffic>& predicted, const Measurement& measured) {
  std::vector<Comparison> lines;
  const auto name = [](const auto& one) { return one.group + " " + one.operation; };
  for (const Traffic& one : predicted) lines.push_back({.what = name(one), .predicted = one.bytes, .floor = kTrafficFloor});
  for (const MeasuredTraffic& one : measured.traffic) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const Comparison& line) { return line.what == name(one); });
    if (found != lines.end()) {
      found->measured = one.bytes;
    } else if (one.bytes > kTrafficFloor) {
      lines.push_back({.what = name(one), .measured = one.bytes, .floor = kTrafficFloor});
    }
  }
  return lines;
}

}  // namespace cohort
