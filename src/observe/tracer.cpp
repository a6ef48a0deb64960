#include "observe/tracer.hpp"

#include <algorithm>
#include <utility>

#include "observe/clock.hpp"

namespace cohort {
namespace {

thread_local int thread_number = 0;

// Whose times on the device tell something: what they put on the compute stream runs there as one piece.
bool has_device_times(TraceSpan::Kind kind, std::string_view name) {
  return kind == TraceSpan::Kind::micro_batch || kind == TraceSpan::Kind::layer ||
         (kind == TraceSpan::Kind::phase && name == "optimizer");
}

}  // namespace

Tracer& Tracer::of_process() {
  static Tracer tracer;
  return tracer;
}

void Tracer::add_range_tool(RangeTool tool) {
  tools_.push_back(tool);
  wanted_ |= kRanges;
}

void Tracer::begin(DeviceClock* clock) {
  {
    const std::lock_guard lock(mutex_);
    constexpr std::size_t kUsual = 1 << 15;  // address space alone, until they come
    spans_.clear();
    operations_.clear();
    spans_.reserve(kUsual);
    operations_.reserve(kUsual);
    clock_ = clock;
    began_ = steady_seconds();
    wanted_ |= kTraced;
  }
  FlightRecorder::of_process().on_finish([](const OperationRecord& record) { of_process().take_finished(record); });
}

void Tracer::end() {
  FlightRecorder::of_process().on_finish(nullptr);
  const std::lock_guard lock(mutex_);
  wanted_ &= ~kTraced;
  const double now = steady_seconds();
  for (const BackgroundSpan* open : background_) {
    TraceSpan span = open->span_;
    span.begin = std::max(span.begin, began_);
    span.end = now;
    add_locked(std::move(span));
  }
  for (TraceSpan& span : spans_) {
    if (span.device_begin < 0) continue;
    span.begin = clock_->seconds(span.device_begin);
    span.end = clock_->seconds(span.device_end);
  }
  clock_ = nullptr;
}

void Tracer::abandon() {
  FlightRecorder::of_process().on_finish(nullptr);
  const std::lock_guard lock(mutex_);
  wanted_ &= ~kTraced;
  clock_ = nullptr;
  spans_ = {};
  operations_ = {};
}

void Tracer::add(TraceSpan span) {
  const std::lock_guard lock(mutex_);
  add_locked(std::move(span));
}

void Tracer::add_locked(TraceSpan span) { spans_.push_back(std::move(span)); }

std::int64_t Tracer::add_operation(OperationRecord record) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(record));
  return static_cast<std::int64_t>(operations_.size()) - 1;
}

// The flight recorder tells in the thread that saw the operation's end.
void Tracer::take_finished(const OperationRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::int64_t>(operations_.size());
  operations_.push_back(record);
  TraceSpan span{.kind = TraceSpan::Kind::request,
                 .thread = thread_number,
                 .name = std::string(record.operation),
                 .begin = std::max(record.started, began_),
                 .end = record.finished,
                 .operation = number};
  add_locked(span);
  if (record.on_device || record.waiting_since == 0.0) return;  // the host did not wait
  span.kind = TraceSpan::Kind::wait;
  span.begin = std::max(record.waiting_since, began_);
  add_locked(std::move(span));
}

BackgroundSpan::BackgroundSpan(int thread, const char* name) {
  thread_number = thread;
  span_ = {.kind = TraceSpan::Kind::work, .thread = thread, .name = name, .begin = steady_seconds()};
  Tracer& tracer = Tracer::of_process();
  const std::lock_guard lock(tracer.mutex_);
  tracer.background_.push_back(this);
}

BackgroundSpan::~BackgroundSpan() {
  Tracer& tracer = Tracer::of_process();
  const std::lock_guard lock(tracer.mutex_);
  std::erase(tracer.background_, this);
  if (!Tracer::on()) return;
  span_.begin = std::max(span_.begin, tracer.began_);
  span_.end = steady_seconds();
  tracer.add_locked(std::move(span_));
}

void TraceScope::open(TraceSpan::Kind kind, const char* name, const Facts& facts) {
  Tracer& tracer = Tracer::of_process();
  open_ = true;
  kind_ = kind;
  name_ = name;
  facts_ = facts;
  for (const RangeTool& tool : tracer.tools_) tool.push(name);
  in_tools_ = !tracer.tools_.empty();
  if (!Tracer::on()) return;
  if (tracer.clock_ != nullptr && has_device_times(kind, name)) device_begin_ = tracer.clock_->mark();
  begin_ = steady_seconds();
}

void TraceScope::close() {
  Tracer& tracer = Tracer::of_process();
  if (in_tools_) {
    for (const RangeTool& tool : tracer.tools_) tool.pop();
  }
  if (begin_ == 0.0 || !Tracer::on()) return;
  TraceSpan span{.kind = kind_,
                 .thread = thread_number,
                 .name = name_,
                 .pass = facts_.pass,
                 .begin = begin_,
                 .end = end_ != 0.0 ? end_ : steady_seconds(),
                 .micro_batch = facts_.micro_batch,
                 .chunk = facts_.chunk};
  if (device_begin_ >= 0) {
    TraceSpan there = span;
    there.thread = kComputeStream;
    there.device_begin = device_begin_;
    there.device_end = tracer.clock_->mark();
    tracer.add(std::move(there));
  }
  tracer.add(std::move(span));
}

}  // namespace cohort
