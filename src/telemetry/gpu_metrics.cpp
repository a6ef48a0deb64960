#include "telemetry/gpu_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace cohort {
namespace {

using gpu::GpuSummary;
using gpu::Spread;
using nlohmann::ordered_json;
using Figure = std::optional<Spread> GpuSummary::*;

struct NamedFigure {
  const char* name;
  Figure figure;
};
constexpr std::array<NamedFigure, 7> kFigures{{{"busy", &GpuSummary::busy},
                                               {"memory_busy", &GpuSummary::memory_busy},
                                               {"memory_used_bytes", &GpuSummary::memory_used},
                                               {"watts", &GpuSummary::watts},
                                               {"celsius", &GpuSummary::celsius},
                                               {"clock_mhz", &GpuSummary::clock_mhz},
                                               {"memory_clock_mhz", &GpuSummary::memory_clock_mhz}}};

// A summary as it travels: numbers, NaN for what is not known. Of XIDs the last ones; more than that in one report is a card
// that is lost anyway.
constexpr std::size_t kXids = 4;
constexpr std::size_t kNumbers = 1 + 3 * kFigures.size() + 4 + kXids;
using Packed = std::array<double, kNumbers>;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

class Writer {
 public:
  explicit Writer(Packed& packed) : at_(packed.begin()) {}
  void put(double value) { *at_++ = value; }
  template <class Number>
  void put(const std::optional<Number>& value) {
    put(value ? static_cast<double>(*value) : kUnknown);
  }

 private:
  Packed::iterator at_;
};

class Reader {
 public:
  explicit Reader(const Packed& packed) : at_(packed.begin()) {}
  double number() { return *at_++; }
  std::optional<double> known() {
    const double value = number();
    return !std::isnan(value) ? std::optional(value) : std::nullopt;
  }
  std::optional<Count> count() {
    const auto value = known();
    return value ? std::optional(static_cast<Count>(*value)) : std::nullopt;
  }

 private:
  Packed::const_iterator at_;
};

Packed pack(const GpuSummary& summary) {
  Packed packed{};
  Writer out(packed);
  out.put(summary.samples);
  for (const NamedFigure& named : kFigures) {
    const std::optional<Spread>& spread = summary.*named.figure;
    out.put(spread ? spread->min : kUnknown);
    out.put(spread ? spread->mean : kUnknown);
    out.put(spread ? spread->max : kUnknown);
  }
  out.put(summary.memory_total);
  out.put(static_cast<double>(summary.slowdowns));  // 11 bits are in use: exact
  out.put(summary.nvlink_bytes_per_second);
  out.put(summary.nvlink_errors);
  const std::size_t first = summary.xids.size() - std::min(kXids, summary.xids.size());
  for (std::size_t i = 0; i < kXids; ++i) {
    out.put(first + i < summary.xids.size() ? summary.xids[first + i] : kUnknown);
  }
  return packed;
}

GpuSummary unpack(const Packed& packed) {
  Reader in(packed);
  GpuSummary summary;
  summary.samples = static_cast<int>(in.number());
  for (const NamedFigure& named : kFigures) {
    const Spread spread{in.number(), in.number(), in.number()};
    if (!std::isnan(spread.mean)) summary.*named.figure = spread;
  }
  summary.memory_total = in.count();
  summary.slowdowns = static_cast<std::uint64_t>(in.number());
  summary.nvlink_bytes_per_second = in.known();
  summary.nvlink_errors = in.count();
  for (std::size_t i = 0; i < kXids; ++i) {
    if (const auto xid = in.known()) summary.xids.push_back(static_cast<int>(*xid));
  }
  return summary;
}

// Over the ranks that know the figure; each counts the same, however often it was sampled.
std::optional<Spread> over_ranks(std::span<const GpuSummary> ranks, Figure figure) {
  std::optional<Spread> all;
  int count = 0;
  for (const GpuSummary& summary : ranks) {
    const std::optional<Spread>& of_rank = summary.*figure;
    if (!of_rank) continue;
    if (!all) all = Spread{of_rank->min, 0.0, of_rank->max};
    all->min = std::min(all->min, of_rank->min);
    all->max = std::max(all->max, of_rank->max);
    all->mean += of_rank->mean;
    ++count;
  }
  if (all) all->mean /= count;
  return all;
}

// The rank whose mean of a figure is the highest, or with `sign` -1 the lowest; the first of equal ones.
std::optional<int> rank_of_most(std::span<const GpuSummary> ranks, Figure figure, double sign) {
  std::optional<int> rank;
  double most = 0.0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::optional<Spread>& spread = ranks[r].*figure;
    if (!spread || (rank && sign * spread->mean <= most)) continue;
    most = sign * spread->mean;
    rank = static_cast<int>(r);
  }
  return rank;
}

void add_nvlink(ordered_json& object, std::span<const GpuSummary> ranks) {
  double least = 0.0, most = 0.0, sum = 0.0;
  int count = 0;
  Count errors = 0;
  for (const GpuSummary& summary : ranks) {
    errors += summary.nvlink_errors.value_or(0);
    if (!summary.nvlink_bytes_per_second) continue;
    const double rate = *summary.nvlink_bytes_per_second / 1e9;
    least = count == 0 ? rate : std::min(least, rate);
    most = std::max(most, rate);
    sum += rate;
    ++count;
  }
  if (count > 0) object["nvlink_gb_per_s"] = {{"min", least}, {"mean", sum / count}, {"max", most}};
  if (errors > 0) object["nvlink_errors"] = errors;
}

}  // namespace

std::vector<GpuSummary> gather(Communicator& world, const GpuSummary& own) {
  const Packed packed = pack(own);
  std::vector<Packed> all(static_cast<std::size_t>(world.size()));
  world.all_gather(packed.data(), all.data(), static_cast<Count>(packed.size()), DType::f64);
  std::vector<GpuSummary> of_all_ranks;
  if (world.rank() != 0) return of_all_ranks;
  for (const Packed& of_rank : all) of_all_ranks.push_back(unpack(of_rank));
  return of_all_ranks;
}

GpuReport GpuMetrics::collect(Communicator& world) {
  GpuReport report;
  report.own = sampler_.take();
  report.of_all_ranks = gather(world, report.own);
  return report;
}

ordered_json to_json(std::span<const GpuSummary> ranks) {
  const auto knows = [](const GpuSummary& summary) { return summary.samples > 0; };
  const auto known = std::count_if(ranks.begin(), ranks.end(), knows);
  if (known == 0) return nullptr;
  ordered_json object{{"ranks", known}};
  for (const NamedFigure& named : kFigures) {
    const std::optional<Spread> spread = over_ranks(ranks, named.figure);
    if (spread) object[named.name] = {{"min", spread->min}, {"mean", spread->mean}, {"max", spread->max}};
  }
  // Of the first GPU that tells it: those of a job are alike.
  const auto total = std::find_if(ranks.begin(), ranks.end(), [](const GpuSummary& s) { return s.memory_total.has_value(); });
  if (total != ranks.end()) object["memory_total_bytes"] = *total->memory_total;
  if (const auto rank = rank_of_most(ranks, &GpuSummary::celsius, 1.0)) object["hottest_rank"] = *rank;
  if (const auto rank = rank_of_most(ranks, &GpuSummary::clock_mhz, -1.0)) object["slowest_clock_rank"] = *rank;
  add_nvlink(object, ranks);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const std::string& reason : gpu::slowdown_names(ranks[r].slowdowns)) object["slowed"][reason].push_back(r);
    for (const int xid : ranks[r].xids) object["xid"].push_back({{"rank", r}, {"xid", xid}});
  }
  return object;
}

std::vector<std::string> alarms(std::span<const GpuSummary> ranks) {
  std::vector<std::string> lines;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const int xid : ranks[r].xids) {
      lines.push_back(fmt::format(
          "warning: the GPU of rank {} reported XID {}: look it up in NVIDIA's list of XID errors before trusting this card", r,
          xid));
    }
  }
  return lines;
}

}  // namespace cohort
