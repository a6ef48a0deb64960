#include "report/trace_record.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "observe/tracer.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// An event of the file, of a rank.
struct Request {
  double begin = 0.0;
  std::string group, operation;
};

// What is kept of a rank's events until the next rank's begin.
struct RankEvents {
  std::string label;
  std::map<int, std::vector<TracedSpan>> tracks;
  std::vector<std::pair<double, double>> steps;  // their begins and ends
  std::map<std::string, Request> open;           // requests, by their number
};

using Intervals = std::vector<std::pair<double, double>>;

// Sorted, and those that touch made one.
Intervals united(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals all;
  for (const auto& [begin, end] : intervals) {
    if (!all.empty() && begin <= all.back().second) {
      all.back().second = std::max(all.back().second, end);
    } else {
      all.emplace_back(begin, end);
    }
  }
  return all;
}

// What of `all` is in none of `others`; both united.
Intervals without(const Intervals& all, const Intervals& others) {
  Intervals left;
  std::size_t i = 0;
  for (auto [begin, end] : all) {
    while (i < others.size() && others[i].second <= begin) ++i;
    for (std::size_t j = i; j < others.size() && others[j].first < end && begin < end; ++j) {
      if (others[j].first > begin) left.emplace_back(begin, others[j].first);
      begin = std::max(begin, others[j].second);
    }
    if (begin < end) left.emplace_back(begin, end);
  }
  return left;
}

Intervals common(const Intervals& a, const Intervals& b) { return without(a, without(a, b)); }

double length(const Intervals& united) {
  double sum = 0.0;
  for (const auto& [begin, end] : united) sum += end - begin;
  return sum;
}

bool is_aside(const TracedSpan& span) { return span.kind == "phase" && (span.name == "validation" || span.name == "checkpoint"); }

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file) { record_.file = file; }

  TraceRecord read() {
    std::ifstream in(file_);
    if (!in) fail(ExitCode::io, "cannot read the trace {}", file_.string());
    bool whole = false;
    for (std::string line; !whole && std::getline(in, line); ++line_) take(line, whole);
    if (line_ < kHeadLines) fail_here("not a trace of cohort");
    if (!whole) fail_here("the trace is cut off; look for a whole one, or trace the steps again");
    end_rank();
    finish();
    return std::move(record_);
  }

 private:
  static constexpr Count kHeadLines = 3;  // see trace_head()

  [[noreturn]] void fail_here(const char* what) const { fail(ExitCode::io, "{}:{}: {}", file_.string(), line_ + 1, what); }

  void take(std::string& line, bool& whole) {
    try {
      if (line_ == 1) {
        take_head(line);
      } else if (line_ >= kHeadLines) {
        whole = line == "]}";
        if (!whole) take_line(line);
      }
    } catch (const json::exception&) {
      fail_here("this is not as cohort writes it");
    }
  }

  void take_line(std::string& line) {
    if (!line.empty() && line.back() == ',') line.pop_back();
    const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object()) take_event(event);  // else it is the last line of a file that is cut off, which read() tells
  }

  void take_head(const std::string& line) {
    constexpr std::string_view kKey = "\"otherData\":";
    const bool has_key = line.starts_with(kKey) && line.ends_with(',');
    const json head = has_key ? json::parse(line.substr(kKey.size(), line.size() - kKey.size() - 1), nullptr, false) : json();
    const bool has_facts = head.is_object() && head.contains("steps") && head.contains("clock");
    if (!has_facts || head.value("program", "") != "cohort") fail_here("not a trace of cohort");
    record_.run = head.value("run", "");
    record_.layout = head.value("layout", "");
    record_.strategy = head.value("strategy", "");
    record_.version = head.value("version", "");
    record_.kernels = head.value("kernels", "");
    record_.rank_count = head.value("ranks", 1);
    record_.clock_error = 1e-6 * head.at("clock").value("error_us", 0.0);
    record_.first_step = head.at("steps").at(0).get<Count>();
    record_.last_step = head.at("steps").at(1).get<Count>();
    record_.timeline_step = (record_.first_step + record_.last_step) / 2;
  }

  void take_event(const json& event) {
    const int rank = event.at("pid").get<int>();
    if (rank != rank_) {
      end_rank();
      rank_ = rank;
    }
    const std::string& type = event.at("ph").get_ref<const std::string&>();
    if (type == "M") {
      if (event.at("name") == "process_labels") events_.label = event.at("args").value("labels", "");
    } else if (type == "X") {
      take_span(event);
    } else if (type == "b" && is_in_a_step(1e-6 * event.at("ts").get<double>())) {
      const json& about = event.at("args");
      events_.open[event.at("id")] = {1e-6 * event.at("ts").get<double>(), about.at("group"), about.at("operation")};
      TracedOperations& operations = operations_of(about.at("group"), about.at("operation"));
      operations.ranks = about.at("ranks").get<int>();
      operations.calls += 1;
      operations.bytes += about.at("bytes").get<Bytes>();
      if (about.contains("peer") && about.at("operation") == "send") {
        TracedMessages& messages = messages_[{rank, about.at("peer").get<int>()}];
        messages.calls += 1;
        messages.bytes += about.at("bytes").get<Bytes>();
      }
    } else if (type == "e") {
      const auto begun = events_.open.find(event.at("id"));
      if (begun == events_.open.end()) return;  // before the first step
      operations_of(begun->second.group, begun->second.operation).seconds +=
          1e-6 * event.at("ts").get<double>() - begun->second.begin;
      events_.open.erase(begun);
    }
  }

  // Requests come behind the spans of their rank. The trace itself begins and ends with a barrier, which is in no step.
  bool is_in_a_step(double moment) const {
    return std::any_of(events_.steps.begin(), events_.steps.end(),
                       [&](const auto& step) { return step.first <= moment && moment < step.second; });
  }

  void take_span(const json& event) {
    const double begin = 1e-6 * event.at("ts").get<double>();
    const json& about = event.at("args");
    if (event.at("cat") == "step") events_.steps.emplace_back(begin, begin + 1e-6 * event.at("dur").get<double>());
    events_.tracks[event.at("tid").get<int>()].push_back({.begin = begin,
                                                          .end = begin + 1e-6 * event.at("dur").get<double>(),
                                                          .kind = event.at("cat"),
                                                          .name = event.at("name"),
                                                          .micro_batch = about.value("micro_batch", -1),
                                                          .group = about.value("group", ""),
                                                          .operation = about.value("operation", "")});
  }

  TracedOperations& operations_of(const std::string& group, const std::string& operation) {
    TracedOperations& operations = operations_[{group, operation}];
    operations.group = group;
    operations.operation = operation;
    if (callers_.insert({{group, operation}, rank_}).first->second != rank_ || operations.callers == 0) {
      callers_[{group, operation}] = rank_;
      operations.callers += 1;
    }
    return operations;
  }

  void end_rank() {
    if (rank_ < 0) return;
    TracedRankTimes rank;
    rank.label = std::move(events_.label);
    const std::vector<TracedSpan>& host = events_.tracks[0];
    const std::vector<TracedSpan>& device = events_.tracks[kComputeStream];
    for (const TracedSpan& span : host) {
      if (span.kind != "step") continue;
      add_step(rank, host, span);
      if (span.name != "step " + std::to_string(record_.timeline_step)) continue;
      step_begins_.emplace_back(span.begin, span.end);
      pieces_.push_back(pieces_of(device.empty() ? host : device, span.begin, span.end));
    }
    add_device(rank, device);
    record_.ranks.push_back(std::move(rank));
    events_ = {};
  }

  void add_step(TracedRankTimes& rank, const std::vector<TracedSpan>& host, const TracedSpan& step) {
    rank.seconds += step.end - step.begin;
    rank.training += step.end - step.begin;
    for (const auto& [phase, seconds] : phase_seconds(host, step.begin, step.end)) {
      rank.phases[phase] += seconds;
      if (phase == "validation" || phase == "checkpoint") rank.training -= seconds;
    }
    std::vector<const TracedSpan*> aside;  // validations and saves that are open
    for (const TracedSpan& span : host) {
      if (span.begin < step.begin || span.begin >= step.end) continue;
      if (is_aside(span)) aside.push_back(&span);
      while (!aside.empty() && aside.back()->end <= span.begin) aside.pop_back();
      if (span.kind != "wait" || !aside.empty() || !events_.tracks[kComputeStream].empty()) continue;
      rank.exposed += span.end - span.begin;
      operations_of(span.group, span.operation).exposed += span.end - span.begin;
    }
  }

  // When the steps train: validations and saves are left out.
  Intervals training() {
    Intervals aside;
    for (const TracedSpan& span : events_.tracks[0]) {
      if (is_aside(span)) aside.emplace_back(span.begin, span.end);
    }
    return without(united(events_.steps), united(std::move(aside)));
  }

  // On a GPU.
  void add_device(TracedRankTimes& rank, const std::vector<TracedSpan>& compute) {
    const Intervals training_time = training();
    for (const TracedSpan& span : compute) {
      if (span.kind != "stall") continue;
      const double seconds = length(common({{span.begin, span.end}}, training_time));
      rank.exposed += seconds;
      operations_of(span.group, span.operation).exposed += seconds;
    }
    Intervals kernels;
    for (const auto& [track, spans] : events_.tracks) {
      if (track < kKernelStreams) continue;
      for (const TracedSpan& span : spans) kernels.emplace_back(span.begin, span.end);
    }
    rank.kernels = length(common(united(std::move(kernels)), training_time));
  }

  void finish() {
    for (auto& [key, operations] : operations_) record_.operations.push_back(std::move(operations));
    std::stable_sort(record_.operations.begin(), record_.operations.end(),
                     [](const TracedOperations& a, const TracedOperations& b) { return a.exposed > b.exposed; });
    for (const auto& [pair, messages] : messages_)
      record_.messages.push_back({pair.first, pair.second, messages.calls, messages.bytes});
    if (step_begins_.empty()) return;
    double first = step_begins_.front().first, last = step_begins_.front().second;
    for (const auto& [begin, end] : step_begins_) {
      first = std::min(first, begin);
      last = std::max(last, end);
    }
    for (std::size_t rank = 0; rank < pieces_.size(); ++rank) {
      for (TimelinePiece& piece : pieces_[rank]) {
        piece.begin += step_begins_[rank].first - first;
        piece.end += step_begins_[rank].first - first;
      }
    }
    record_.timeline = {last - first, std::move(pieces_)};
  }

  std::filesystem::path file_;
  Count line_ = 0;
  int rank_ = -1;
  RankEvents events_;
  TraceRecord record_;
  std::map<std::pair<std::string, std::string>, TracedOperations> operations_;
  std::map<std::pair<std::string, std::string>, int> callers_;  // the rank that called it last
  std::map<std::pair<int, int>, TracedMessages> messages_;
  std::vector<std::pair<double, double>> step_begins_;  // and ends, of the timeline's step, by rank
  std::vector<std::vector<TimelinePiece>> pieces_;
};

}  // namespace

TraceRecord read_trace_record(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace cohort
