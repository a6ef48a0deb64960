#include "observe/tensorboard/tensorboard_writer.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>

#include "base/error.hpp"
#include "event.pb.h"
#include "observe/tensorboard/crc32c.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";  // TensorBoard looks for "tfevents"
constexpr int kStrings = 7;                                   // of Tensor::dtype

// The time in the name of an event file; 0 if it is another file.
std::int64_t time_in(const std::string& name) {
  if (!name.starts_with(kPrefix)) return 0;
  std::int64_t time = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
  return time;
}

// TensorBoard reads the files by name, so a later start must have a later time there, whatever the clocks of nodes say.
fs::path next_file(const fs::path& folder, double now) {
  auto time = static_cast<std::int64_t>(now);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    time = std::max(time, time_in(entry.path().filename().string()) + 1);
  return folder / fmt::format("{}{:010}.cohort", kPrefix, time);
}

template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little, "event files are little-endian");
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

void set(tensorboard::Histogram& to, const ValueHistogram& histogram) {
  const std::vector<double>&edges = histogram.edges, &counts = histogram.counts;
  double sum = 0.0, squares = 0.0, all = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double middle = 0.5 * (edges[i] + edges[i + 1]);
    all += counts[i];
    sum += counts[i] * middle;
    squares += counts[i] * middle * middle;
    to.add_bucket_limit(edges[i + 1]);
    to.add_bucket(counts[i]);
  }
  to.set_num(all);
  to.set_sum(sum);
  to.set_sum_squares(squares);
  if (edges.empty()) return;
  to.set_min(edges.front());
  to.set_max(edges.back());
}

void set_text(tensorboard::Summary::Value& value, const std::string& text) {
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  tensorboard::Tensor& tensor = *value.mutable_tensor();
  tensor.set_dtype(kStrings);
  tensor.mutable_tensor_shape()->add_dim()->set_size(1);
  tensor.add_string_val(text);
}

tensorboard::Event event_of(Count step, double time) {
  tensorboard::Event event;
  event.set_step(step);
  event.set_wall_time(time);
  return event;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, Count first_step, double time) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ExitCode::io, "cannot make the folder {}: {}", folder.string(), error.message());
  path_ = next_file(folder, time);
  file_.open(path_, std::ios::binary);
  if (!file_) fail(ExitCode::io, "cannot write the TensorBoard events '{}': {}", path_.string(), std::strerror(errno));
  tensorboard::Event version = event_of(first_step, time), start = version;
  version.set_file_version("brain.Event:2");
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  append(version.SerializeAsString());
  append(start.SerializeAsString());
}

void TensorBoardWriter::write(const TensorBoardStep& step) {
  tensorboard::Event event = event_of(step.step, step.time);
  const auto value_of = [&](const std::string& tag) -> tensorboard::Summary::Value& {
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    return value;
  };
  for (const auto& [tag, number] : step.scalars) value_of(tag).set_simple_value(static_cast<float>(number));
  for (const auto& [tag, histogram] : step.histograms) set(*value_of(tag).mutable_histo(), histogram);
  for (const auto& [tag, text] : step.texts) set_text(value_of(tag), text);
  append(event.SerializeAsString());
}

// A record is its length (8 bytes), the checksum of these, the event, and its checksum.
void TensorBoardWriter::append(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_ << length << little_endian(masked_crc32c_of(length)) << event << little_endian(masked_crc32c_of(event)) << std::flush;
  if (!file_) fail(ExitCode::io, "cannot write the TensorBoard events '{}' (is the disk full?)", path_.string());
}

}  // namespace cohort
