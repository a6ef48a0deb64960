#include "report/traced_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "report/trace_record.hpp"
#include "rundir/trace_files.hpp"

namespace cohort {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostRows = 256;    // of the timeline
constexpr std::size_t kMatrixRanks = 16;  // of the matrix of messages; of more ranks the largest flows are listed
constexpr std::size_t kListedFlows = 20;
constexpr double kTimeUnits = 100000.0;  // of which a step has so many: finer than any screen

ordered_json rounded(double value) { return ordered_json::parse(fmt::format("{:.6g}", value)); }

// Of many ranks evenly spread ones.
ordered_json timeline_of(const TraceRecord& trace) {
  Timeline timeline = trace.timeline;
  thin(timeline);
  std::vector<std::string> kinds;
  const auto number_of = [&](const std::string& what) {
    const auto found = std::find(kinds.begin(), kinds.end(), what);
    if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
    kinds.push_back(what);
    return kinds.size() - 1;
  };
  ordered_json rows = ordered_json::array();
  const std::size_t stride = (timeline.ranks.size() + kMostRows - 1) / kMostRows;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); rank += stride) {
    ordered_json pieces = ordered_json::array();
    for (const TimelinePiece& piece : timeline.ranks[rank]) {
      const auto units = [&](double seconds) { return std::llround(kTimeUnits * seconds / timeline.seconds); };
      pieces.push_back({units(piece.begin), units(piece.end), number_of(piece.what), piece.micro_batch});
    }
    rows.push_back({{"rank", rank}, {"label", trace.ranks[rank].label}, {"pieces", std::move(pieces)}});
  }
  return {{"step", trace.timeline_step}, {"seconds", rounded(timeline.seconds)}, {"kinds", kinds}, {"rows", std::move(rows)}};
}

ordered_json operations_of(const TraceRecord& trace) {
  double training = 0.0;
  for (const TracedRankTimes& rank : trace.ranks) training += rank.training;
  ordered_json list = ordered_json::array();
  for (const TracedOperations& o : trace.operations) {
    const double rank_steps = std::max(1.0, static_cast<double>(o.callers) * static_cast<double>(trace.steps()));
    list.push_back({{"group", o.group},
                    {"operation", o.operation},
                    {"ranks", o.ranks},
                    {"calls", rounded(static_cast<double>(o.calls) / rank_steps)},
                    {"bytes", rounded(static_cast<double>(o.bytes) / rank_steps)},
                    {"seconds", rounded(o.calls > 0 ? o.seconds / static_cast<double>(o.calls) : 0.0)},
                    {"exposed", rounded(training > 0.0 ? o.exposed / training : 0.0)}});
  }
  return list;
}

ordered_json messages_of(const TraceRecord& trace) {
  std::vector<TracedMessages> flows = trace.messages;
  const bool matrix = trace.ranks.size() <= kMatrixRanks;
  if (!matrix) {
    std::stable_sort(flows.begin(), flows.end(),
                     [](const TracedMessages& a, const TracedMessages& b) { return a.bytes > b.bytes; });
    flows.resize(std::min(flows.size(), kListedFlows));
  }
  const auto steps = static_cast<double>(trace.steps());
  ordered_json list = ordered_json::array();
  for (const TracedMessages& flow : flows) list.push_back({flow.from, flow.to, rounded(static_cast<double>(flow.bytes) / steps)});
  return {{"matrix", matrix}, {"all", trace.messages.size()}, {"flows", std::move(list)}};
}

}  // namespace

ordered_json traced_part(const std::filesystem::path& run_folder) {
  const std::vector<std::filesystem::path> files = trace_files(run_folder);
  if (files.empty())
    return {{"trace_note",
             "This run has no trace. `cohort train ... --trace steps=10-12` writes one: who works when, and what is sent."}};
  try {
    const TraceRecord trace = read_trace_record(files.back());
    std::vector<double> exposed;
    for (const TracedRankTimes& rank : trace.ranks) exposed.push_back(rank.exposed_share());
    std::sort(exposed.begin(), exposed.end());
    if (exposed.empty()) fail(ExitCode::io, "{} has no ranks", trace.file.string());
    ordered_json part{{"file", trace.file.filename().string()},
                      {"first", trace.first_step},
                      {"last", trace.last_step},
                      {"ranks", trace.ranks.size()},
                      {"clock_error", trace.clock_error},
                      {"kernels", trace.kernels},
                      {"exposed", {rounded(exposed.front()), rounded(exposed[exposed.size() / 2]), rounded(exposed.back())}}};
    part["timeline"] = timeline_of(trace);
    part["operations"] = operations_of(trace);
    part["messages"] = messages_of(trace);
    return {{"trace", std::move(part)}};
  } catch (const Error& error) {
    return {{"trace_note", fmt::format("The trace cannot be shown: {}.", error.what())}};
  }
}

}  // namespace cohort
