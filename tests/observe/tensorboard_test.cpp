// Event files byte by byte, where TensorBoard's own loader (clients_test.py) is not at hand.
#include "observe/tensorboard/tensorboard_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "observe/tensorboard/crc32c.hpp"
#include "observe/tensorboard/wire_format.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;
using test::text_of;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The events of a file, whose lengths and checksums must be right.
std::vector<std::string> events_of(const std::filesystem::path& path) {
  const std::string text = text_of(path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, text.data() + at, 8);
    EXPECT_EQ(text.substr(at + 8, 4), little_endian(masked_crc32c_of(text.substr(at, 8))));
    events.push_back(text.substr(at + 12, length));
    EXPECT_EQ(text.substr(at + 12 + length, 4), little_endian(masked_crc32c_of(events.back())));
    at += 16 + length;
  }
  return events;
}

TEST(TensorBoard, ChecksumsAreCastagnolis) {
  EXPECT_EQ(crc32c_of("123456789"), 0xe3069283u);  // the check value of the catalogue of CRCs
  EXPECT_EQ(crc32c_of(""), 0u);
}

TEST(TensorBoard, MessagesAreInTheWireFormat) {
  EXPECT_EQ(WireMessage().integer(1, 150).str(), std::string("\x08\x96\x01"));  // the example of protobuf's documentation
  EXPECT_EQ(WireMessage().bytes(2, "testing").str(), std::string("\x12\x07testing"));
  EXPECT_EQ(WireMessage().number(3, 1.0f).str(), std::string("\x1d\x00\x00\x80\x3f", 5));
  EXPECT_EQ(WireMessage().number(3, 1.0).str(), std::string("\x19\x00\x00\x00\x00\x00\x00\xf0\x3f", 9));
  EXPECT_EQ(WireMessage().numbers(6, std::vector<double>{1.0}).str(),
            std::string("\x32\x08\x00\x00\x00\x00\x00\x00\xf0\x3f", 10));
  EXPECT_EQ(WireMessage().message(3, WireMessage().integer(1, 150)).str(), std::string("\x1a\x03\x08\x96\x01"));
}

TEST(TensorBoard, AStepIsOneEventBehindTheStart) {
  const TemporaryFolder folder;
  TensorBoardWriter writer(folder / "tensorboard", 13, 1.5);
  writer.write({.step = 13, .time = 2.5, .scalars = {{"loss", 4.0}}, .histograms = {{"h", {{0.0, 1.0, 2.0}, {3.0, 4.0}}}}});
  const std::vector<std::string> events = events_of(files_in(folder / "tensorboard").at(0));  // flushed, though it is open
  ASSERT_EQ(events.size(), 3);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  const std::string step = WireMessage().number(1, 1.5).integer(2, 13).str();
  EXPECT_EQ(events[1], step + WireMessage().message(7, WireMessage().integer(1, 1)).str());
  EXPECT_NE(events[2].find(WireMessage().bytes(1, "loss").number(2, 4.0f).str()), std::string::npos);
  EXPECT_NE(
      events[2].find(WireMessage().numbers(6, std::vector<double>{1.0, 2.0}).numbers(7, std::vector<double>{3.0, 4.0}).str()),
      std::string::npos);
}

// Whatever the clock says, since the files are read by name.
TEST(TensorBoard, LaterFilesSortBehind) {
  const TemporaryFolder folder;
  for (const double time : {2000.0, 1000.0, 1000.0}) TensorBoardWriter(folder / "tensorboard", 1, time);
  std::vector<std::string> names;
  for (const auto& file : files_in(folder / "tensorboard")) names.push_back(file.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"events.out.tfevents.0000002000.cohort", "events.out.tfevents.0000002001.cohort",
                                             "events.out.tfevents.0000002002.cohort"}));
}

TEST(TensorBoard, SaysWhereItCannotWrite) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "";
  EXPECT_ERROR(TensorBoardWriter(folder / "file", 1, 0.0), ExitCode::io, "file");
}

}  // namespace
}  // namespace cohort
