#include "observe/trace_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace cohort {
namespace {

using SpanKind = TraceSpan::Kind;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view file_name(const std::source_location& site) {
  const std::string_view path = site.file_name();
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string arguments_of(const OperationRecord& operation) {
  std::string text =
      fmt::format(R"("operation":{},"group":{},"bytes":{},"elements":{},"dtype":"{}","ranks":{},"form":"{}")",
                  json_text(operation.operation), json_text(operation.group), operation.bytes(), operation.elements,
                  name_of(operation.dtype), operation.ranks, operation.asynchronous ? "asynchronous" : "blocking");
  auto out = std::back_inserter(text);
  if (operation.peer >= 0) {
    fmt::format_to(out, R"(,"peer":{})", operation.peer);
  } else if (operation.number > 0) {
    fmt::format_to(out, R"(,"number":{})", operation.number);
  }
  if (operation.site.line() > 0) fmt::format_to(out, R"(,"site":"{}:{}")", file_name(operation.site), operation.site.line());
  return text;
}

std::string arguments_of(const TraceSpan& span, const std::vector<OperationRecord>& operations) {
  if (span.operation >= 0) return arguments_of(operations[static_cast<std::size_t>(span.operation)]);
  std::string text;
  if (!span.pass.empty()) text = fmt::format(R"("pass":"{}")", span.pass);
  if (span.micro_batch < 0) return text;
  text = fmt::format(R"("pass":{},"micro_batch":{})", json_text(span.name), span.micro_batch);
  if (span.chunk >= 0) fmt::format_to(std::back_inserter(text), R"(,"chunk":{})", span.chunk);
  return text;
}

std::string shown_name(const TraceSpan& span, const std::vector<OperationRecord>& operations) {
  if (span.micro_batch >= 0) return fmt::format("{} {}", span.name, span.micro_batch);
  if (span.operation < 0) return span.name;
  const OperationRecord& operation = operations[static_cast<std::size_t>(span.operation)];
  const bool waits = span.kind == SpanKind::wait || span.kind == SpanKind::stall;
  return fmt::format("{}{} {}", waits ? "wait " : "", operation.group, operation.operation);
}

std::string track_name(const TraceSpan& span) {
  if (span.thread >= kKernelStreams) return fmt::format("kernels, stream {}", span.thread - kKernelStreams);
  if (span.thread == kComputeStream) return "compute stream";
  if (span.thread == kCommunicationStream) return "communication stream";
  return span.thread == 0 ? "step" : "checkpoint saver";
}

/// Whole nanoseconds, so that what nests still does when it is written. Times before 0 are errors of the clocks.
std::int64_t nanoseconds(double seconds) { return std::max<std::int64_t>(0, std::llround(seconds * 1e9)); }

std::string microseconds(std::int64_t nanoseconds) { return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000); }

struct Event {
  std::int64_t begin, end;
  const TraceSpan* span;
  std::size_t number;  // of a request
};

class Writer {
 public:
  Writer(const Tracer& tracer, const TracedRank& rank) : tracer_(tracer), rank_(rank) {}

  std::string write() {
    metadata("process_name", 0, json_text(fmt::format("rank {}", rank_.rank)));
    metadata("process_labels", 0, json_text(rank_.label), "labels");
    metadata("process_sort_index", 0, fmt::to_string(rank_.rank), "sort_index");
    std::map<int, std::vector<Event>> tracks;
    std::vector<Event> requests;
    for (const TraceSpan& span : tracer_.spans()) {
      const std::int64_t begin = nanoseconds(span.begin + rank_.shift);
      const Event event{begin, std::max(begin, nanoseconds(span.end + rank_.shift)), &span, requests.size()};
      if (span.kind == SpanKind::request) {
        requests.push_back(event);
      } else {
        tracks[span.thread].push_back(event);
      }
    }
    for (auto& [thread, events] : tracks) write_track(thread, events);
    write_requests(requests);
    return std::move(text_);
  }

 private:
  void metadata(const char* name, int thread, const std::string& value, const char* key = "name") {
    line(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"{}":{}}}}})", rank_.rank, thread, name, key, value));
  }

  void write_track(int thread, std::vector<Event>& events) {
    metadata("thread_name", thread, json_text(track_name(*events.front().span)));
    metadata("thread_sort_index", thread, fmt::to_string(thread), "sort_index");
    // What encloses others comes before them.
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end > b.end : a.span->kind < b.span->kind;
    });
    for (const Event& event : events) {
      const TraceSpan& span = *event.span;
      line(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"cat":"{}","name":{},"args":{{{}}}}})", rank_.rank,
                       thread, microseconds(event.begin), microseconds(event.end - event.begin), name_of(span.kind),
                       json_text(shown_name(span, tracer_.operations())), arguments_of(span, tracer_.operations())));
    }
  }

  // A request is known by its number; no two of all ranks have the same.
  void write_requests(const std::vector<Event>& requests) {
    struct Half {
      std::int64_t at;
      bool is_end;
      const Event* event;
    };
    std::vector<Half> halves;
    for (const Event& event : requests) {
      halves.push_back({event.begin, false, &event});
      halves.push_back({event.end, true, &event});
    }
    // At one moment, begins before ends: a request may take no time.
    std::stable_sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) { return a.at < b.at; });
    for (const Half& half : halves) {
      const TraceSpan& span = *half.event->span;
      const std::string arguments = half.is_end ? "" : fmt::format(R"(,"args":{{{}}})", arguments_of(span, tracer_.operations()));
      line(fmt::format(R"({{"ph":"{}","pid":{},"tid":0,"ts":{},"id":"0x{:x}","cat":"request","name":{}{}}})",
                       half.is_end ? 'e' : 'b', rank_.rank, microseconds(half.at),
                       (static_cast<std::uint64_t>(rank_.rank) << 32) + half.event->number,
                       json_text(shown_name(span, tracer_.operations())), arguments));
    }
  }

  void line(const std::string& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event;
  }

  const Tracer& tracer_;
  const TracedRank& rank_;
  std::string text_;
};

}  // namespace

std::string_view name_of(TraceSpan::Kind kind) {
  constexpr std::array<std::string_view, 10> kNames{"step", "phase",   "micro_batch", "layer", "work",
                                                    "wait", "request", "transfer",    "stall", "kernel"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string trace_events(const Tracer& tracer, const TracedRank& rank) { return Writer(tracer, rank).write(); }

std::string trace_head(const std::string& facts) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{},\n\"traceEvents\":[\n", facts);
}

std::string_view trace_tail() { return "\n]}\n"; }

}  // namespace cohort
