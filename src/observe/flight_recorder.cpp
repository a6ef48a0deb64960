#include "observe/flight_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "observe/clock.hpp"

namespace cohort {
namespace {

std::string_view file_of(const std::source_location& site) {
  const std::string_view path = site.file_name();
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

std::string OperationRecord::str() const {
  const std::string what = fmt::format("{} of {} {}", operation, elements, name_of(dtype));
  if (peer >= 0) {
    return fmt::format("{} {} rank {} on '{}' ({}:{})", what, operation == "send" ? "to" : "from", peer, group, file_of(site),
                       site.line());
  }
  return fmt::format("{} on '{}' (number {}, {}:{})", what, group, number, file_of(site), site.line());
}

FlightRecorder::FlightRecorder() : FlightRecorder(steady_seconds) {}

FlightRecorder& FlightRecorder::of_process() {
  static FlightRecorder recorder;
  return recorder;
}

OperationRecord* FlightRecorder::find(Id id) {
  // An operation that outlived kRecords others has lost its place.
  return id == kNone || id + kRecords <= last_ ? nullptr : &ring_[id % kRecords];
}

FlightRecorder::Id FlightRecorder::begin(OperationRecord record) {
  const std::lock_guard lock(mutex_);
  record.step = step_;
  record.started = clock_();
  ++progress_;
  const Id id = ++last_;
  ring_[id % kRecords] = std::move(record);
  return id;
}

void FlightRecorder::wait(Id id) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  if (OperationRecord* record = find(id); record != nullptr && record->waiting_since == 0.0) record->waiting_since = clock_();
}

void FlightRecorder::finish(Id id) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  OperationRecord* record = find(id);
  if (record == nullptr) return;
  record->finished = clock_();
  last_finished_ = id;
}

void FlightRecorder::set_step(Count step) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  step_ = step;
}

void FlightRecorder::set_activity(std::string_view activity) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  activity_ = activity;
  activity_since_ = clock_();
}

void FlightRecorder::beat() {
  const std::lock_guard lock(mutex_);
  ++progress_;
}

FlightRecorder::LongCall::LongCall(std::string_view activity, FlightRecorder& recorder) : recorder_(recorder) {
  const std::lock_guard lock(recorder_.mutex_);
  if (recorder_.long_calls_++ == 0) recorder_.long_call_since_ = recorder_.clock_();
  ++recorder_.progress_;
  outer_ = std::exchange(recorder_.activity_, activity);
  recorder_.activity_since_ = recorder_.clock_();
}

FlightRecorder::LongCall::~LongCall() {
  const std::lock_guard lock(recorder_.mutex_);
  --recorder_.long_calls_;
  ++recorder_.progress_;
  recorder_.activity_ = outer_;
  recorder_.activity_since_ = recorder_.clock_();
}

std::uint64_t FlightRecorder::progress_by(double now) const {
  if (long_calls_ == 0) return progress_;
  constexpr double kPerSecond = 100.0;
  return progress_ + static_cast<std::uint64_t>(kPerSecond * std::min(now - long_call_since_, kLongestCall));
}

std::uint64_t FlightRecorder::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_by(clock_());
}

std::vector<OperationRecord> FlightRecorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<OperationRecord> records;
  for (Id id = last_ >= kRecords ? last_ - kRecords + 1 : 1; id <= last_; ++id) records.push_back(ring_[id % kRecords]);
  return records;
}

FlightRecorder::State FlightRecorder::state() const {
  State state;
  for (OperationRecord& record : records()) {
    if (record.waits()) state.waiting.push_back(std::move(record));
  }
  std::sort(state.waiting.begin(), state.waiting.end(),
            [](const OperationRecord& a, const OperationRecord& b) { return a.waiting_since < b.waiting_since; });
  const std::lock_guard lock(mutex_);
  state.step = step_;
  state.activity = activity_;
  state.now = clock_();
  state.seconds_in_activity = state.now - activity_since_;
  state.progress = progress_by(state.now);
  if (last_finished_ != kNone && last_finished_ + kRecords > last_) state.finished = ring_[last_finished_ % kRecords];
  return state;
}

}  // namespace cohort
