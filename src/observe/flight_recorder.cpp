#include "observe/flight_recorder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "observe/clock.hpp"

namespace cohort {
namespace {

constexpr std::size_t kKeptBytes = 256;

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

FlightRecorder::~FlightRecorder() {
  if (file_ >= 0) close(file_);
}

FlightRecorder& FlightRecorder::of_process() {
  static FlightRecorder recorder;
  return recorder;
}

OperationRecord* FlightRecorder::find(Id id) {
  if (id == kNone) return nullptr;
  if (id + kRecords > last_) return &ring_[id % kRecords];
  const auto outlived = outlived_.find(id);
  return outlived == outlived_.end() ? nullptr : &outlived->second;
}

FlightRecorder::Id FlightRecorder::begin(OperationRecord record) {
  const std::lock_guard lock(mutex_);
  record.step = step_;
  record.started = clock_();
  ++progress_;
  const Id id = ++last_;
  OperationRecord& place = ring_[id % kRecords];
  if (id > kRecords && place.finished == 0.0) {
    outlived_.emplace_hint(outlived_.end(), id - kRecords, std::move(place));
  } else if (id > kRecords && id - kRecords == last_finished_) {
    finished_outlived_ = std::move(place);
  }
  place = std::move(record);
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
  if (on_finish_ != nullptr) on_finish_(*record);
  if (id + kRecords > last_) return;
  finished_outlived_ = std::move(*record);
  outlived_.erase(id);
}

void FlightRecorder::on_finish(Listener listener) {
  const std::lock_guard lock(mutex_);
  on_finish_ = listener;
}

void FlightRecorder::set_step(Count step) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  step_ = step;
  changed();
}

void FlightRecorder::set_activity(std::string_view activity) {
  const std::lock_guard lock(mutex_);
  ++progress_;
  activity_ = activity;
  activity_since_ = clock_();
  changed();
}

void FlightRecorder::keep_in(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  if (file_ >= 0) close(file_);
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  changed();
}

// One line of one length, written over the last one in one call: who dies leaves the old or the new one.
void FlightRecorder::changed() {
  ++changes_;
  if (file_ < 0) return;
  std::array<char, kKeptBytes> line;
  line.fill(' ');
  fmt::format_to_n(line.data(), line.size() - 1, R"({{"process": {}, "step": {}, "changes": {}, "activity": "{}"}})", getpid(),
                   step_, changes_, activity_);
  line.back() = '\n';
  [[maybe_unused]] const ssize_t written = pwrite(file_, line.data(), line.size(), 0);
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
  recorder_.changed();
}

FlightRecorder::LongCall::~LongCall() {
  const std::lock_guard lock(recorder_.mutex_);
  --recorder_.long_calls_;
  ++recorder_.progress_;
  recorder_.activity_ = outer_;
  recorder_.activity_since_ = recorder_.clock_();
  recorder_.changed();
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
  for (const auto& [id, record] : outlived_) records.push_back(record);
  for (Id id = last_ >= kRecords ? last_ - kRecords + 1 : 1; id <= last_; ++id) records.push_back(ring_[id % kRecords]);
  return records;
}

FlightRecorder::State FlightRecorder::state() const {
  State state;
  for (OperationRecord& record : records()) {
    if (record.waits()) state.waiting.push_back(std::move(record));
  }
  std::stable_sort(state.waiting.begin(), state.waiting.end(),
                   [](const OperationRecord& a, const OperationRecord& b) { return a.waiting_since < b.waiting_since; });
  const std::lock_guard lock(mutex_);
  state.step = step_;
  state.activity = activity_;
  state.now = clock_();
  state.seconds_in_activity = state.now - activity_since_;
  state.progress = progress_by(state.now);
  state.changes = changes_;
  if (last_finished_ != kNone)
    state.finished = last_finished_ + kRecords > last_ ? ring_[last_finished_ % kRecords] : finished_outlived_;
  return state;
}

std::optional<KeptState> read_kept_state(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || file.eof()) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(line);
    return KeptState{.process = json.at("process"),
                     .step = json.at("step"),
                     .changes = json.at("changes"),
                     .activity = json.at("activity").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace cohort
