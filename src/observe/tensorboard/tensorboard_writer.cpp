#include "observe/tensorboard/tensorboard_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <system_error>

#include "base/error.hpp"
#include "observe/tensorboard/crc32c.hpp"
#include "observe/tensorboard/wire_format.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";  // TensorBoard looks for "tfevents"

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

// The fields of TensorFlow's messages, as far as they are written.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr int kValue = 1;  // of Summary; below, of Summary.Value
constexpr int kTag = 1, kSimpleValue = 2, kHistogram = 5, kTensor = 8, kMetadata = 9;
}  // namespace summary
namespace histogram {
constexpr int kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kBucketLimit = 6, kBucket = 7;
}
namespace tensor {
constexpr int kDtype = 1, kShape = 2, kStringValue = 8;
constexpr int kDim = 2, kSize = 1;  // of its shape, and of a dim
constexpr int kStrings = 7;         // a dtype
}  // namespace tensor
constexpr int kStatus = 1, kStart = 1;           // of a SessionLog: what came before from this step on is superseded
constexpr int kPluginData = 1, kPluginName = 1;  // of metadata

WireMessage message_of(const ValueHistogram& values) {
  const std::vector<double>&edges = values.edges, &counts = values.counts;
  double sum = 0.0, squares = 0.0, all = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double middle = 0.5 * (edges[i] + edges[i + 1]);
    all += counts[i];
    sum += counts[i] * middle;
    squares += counts[i] * middle * middle;
  }
  WireMessage message;
  if (!edges.empty()) {
    message.number(histogram::kMin, edges.front()).number(histogram::kMax, edges.back());
    message.numbers(histogram::kBucketLimit, std::span(edges).subspan(1)).numbers(histogram::kBucket, counts);
  }
  message.number(histogram::kNum, all).number(histogram::kSum, sum).number(histogram::kSumSquares, squares);
  return message;
}

WireMessage tensor_of(const std::string& text) {
  const WireMessage shape = WireMessage().message(tensor::kDim, WireMessage().integer(tensor::kSize, 1));
  return WireMessage().integer(tensor::kDtype, tensor::kStrings).message(tensor::kShape, shape).bytes(tensor::kStringValue, text);
}

WireMessage event_of(Count step, double time) { return WireMessage().number(event::kWallTime, time).integer(event::kStep, step); }

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, Count first_step, double time) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ExitCode::io, "cannot make the folder {}: {}", folder.string(), error.message());
  path_ = next_file(folder, time);
  file_.open(path_, std::ios::binary);
  if (!file_) fail(ExitCode::io, "cannot write the TensorBoard events '{}': {}", path_.string(), std::strerror(errno));
  append(event_of(first_step, time).bytes(event::kFileVersion, "brain.Event:2").str());
  append(event_of(first_step, time).message(event::kSessionLog, WireMessage().integer(kStatus, kStart)).str());
}

void TensorBoardWriter::write(const TensorBoardStep& step) {
  WireMessage values;
  const auto add = [&](const WireMessage& value) { values.message(summary::kValue, value); };
  const auto tagged = [](const std::string& tag) { return WireMessage().bytes(summary::kTag, tag); };
  for (const auto& [tag, number] : step.scalars) add(tagged(tag).number(summary::kSimpleValue, static_cast<float>(number)));
  for (const auto& [tag, histogram] : step.histograms) add(tagged(tag).message(summary::kHistogram, message_of(histogram)));
  for (const auto& [tag, text] : step.texts) {
    const WireMessage metadata = WireMessage().message(kPluginData, WireMessage().bytes(kPluginName, "text"));
    add(tagged(tag).message(summary::kTensor, tensor_of(text)).message(summary::kMetadata, metadata));
  }
  append(event_of(step.step, step.time).message(event::kSummary, values).str());
}

// A record is its length (8 bytes), the checksum of these, the event, and its checksum.
void TensorBoardWriter::append(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_ << length << little_endian(masked_crc32c_of(length)) << event << little_endian(masked_crc32c_of(event)) << std::flush;
  if (!file_) fail(ExitCode::io, "cannot write the TensorBoard events '{}' (is the disk full?)", path_.string());
}

}  // namespace cohort
