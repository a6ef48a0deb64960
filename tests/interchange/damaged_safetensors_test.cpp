// Safetensors as an attacker or a bad disk would have them: each is refused with a message, none is a crash or fills the memory.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/strict_json.hpp"
#include "interchange/safetensors_writer.hpp"
#include "safetensors_fixture.hpp"

namespace cohort::test {
namespace {

class DamagedSafetensors : public ::testing::Test {
 protected:
  void refused(const std::string& bytes, std::initializer_list<const char*> parts) {
    write_bytes(file_, bytes);
    SCOPED_TRACE(bytes.substr(0, 120));
    expect_error([&] { read_everything(file_); }, ExitCode::checkpoint, parts);
    expect_error([&] { read_everything(file_); }, ExitCode::checkpoint, {"x.safetensors"});
  }
  void refused_header(const std::string& header, std::size_t data, std::initializer_list<const char*> parts) {
    refused(file_bytes(header, data), parts);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "x.safetensors";
};

TEST_F(DamagedSafetensors, LengthOfTheHeader) {
  refused("", {"0 bytes long"});
  refused("1234567", {"7 bytes long"});
  refused(length_prefix(0), {"does not begin with '{'"});
  refused(length_prefix(9) + "{}", {"9 bytes", "ends 2 bytes"});
  refused(length_prefix(100'000'001) + "{}", {"100000001"});
  refused(length_prefix(~std::uint64_t{0}) + "{}", {"18446744073709551615"});
}

TEST_F(DamagedSafetensors, Json) {
  refused_header(" {}", 0, {"does not begin"});
  refused_header("[1]", 0, {"does not begin"});
  refused_header("{\"a\":", 0, {"not valid JSON"});
  refused_header("{} {}", 0, {"not valid JSON"});
  refused_header("{\"\xff\":1}", 0, {"not valid JSON"});
  refused_header("{\"a\":[[[[[[", 0, {"nested deeper"});
  refused_header("{\"a\":" + std::string(1'000'000, '['), 0, {"nested deeper"});
  refused_header(R"({"a":1})", 0, {"'a'", "not an object"});
  refused_header(R"({"__metadata__":{"a":1}})", 0, {"'a'", "not a string"});
  refused_header(R"({"__metadata__":1})", 0, {"not an object"});
}

TEST_F(DamagedSafetensors, NamesTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  refused_header("{\"twin\":" + entry + ",\"twin\":" + entry + "}", 1, {"'twin' twice"});
  refused_header(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, {"'dtype' twice"});
}

TEST_F(DamagedSafetensors, Entries) {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"w":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  refused_header(entry("\"F31\"", "[1]", "[0,4]"), 4, {"'w'", "unknown dtype \"F31\"", "BF16"});
  refused_header(entry("7", "[1]", "[0,4]"), 4, {"unknown dtype 7"});
  refused_header(entry("\"F32\"", "1", "[0,4]"), 4, {"shape"});
  refused_header(entry("\"F32\"", "[-1]", "[0,4]"), 4, {"shape"});
  refused_header(entry("\"F32\"", "[1,1,1,1,1,1]", "[0,4]"), 4, {"6 dims", "5 at most"});
  refused_header(entry("\"F32\"", "[1.0]", "[0,4]"), 4, {"shape"});
  refused_header(entry("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, {"shape"});
  refused_header(entry("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, {"shape"});
  refused_header(entry("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, {"larger than any file"});
  refused_header(entry("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), 0, {"larger than any file"});
  refused_header(entry("\"F32\"", "[2305843009213693952]", "[0,0]"), 0, {"larger than any file"});  // 2^61 x 4 bytes
  refused_header(entry("\"F32\"", "[1]", "[4,0]"), 4, {"data_offsets"});
  refused_header(entry("\"F32\"", "[1]", "[0]"), 4, {"data_offsets"});
  refused_header(entry("\"F32\"", "[1]", "[0,4,4]"), 4, {"data_offsets"});
  refused_header(entry("\"F32\"", "[1]", "{}"), 4, {"data_offsets"});
  refused_header(entry("\"F32\"", "[2]", "[0,8]"), 4, {"ends at byte 8", "has 4"});
  refused_header(entry("\"F32\"", "[2]", "[0,4]"), 4, {"8 bytes", "hold 4"});
  refused_header(entry("\"F32\"", "[1]", "[0,5]"), 5, {"4 bytes", "hold 5"});
  refused_header(R"({"w":{"dtype":"F32","shape":[1]}})", 4, {"data_offsets is missing"});
  refused_header(entry("\"I64\"", "[1]", "[0,8]"), 8, {"'w' is I64", "weights are"});
}

TEST_F(DamagedSafetensors, GapsAndOverlaps) {
  const auto two = [](const char* first, const char* second) {
    return fmt::format(
        R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})", first,
        second);
  };
  refused_header(two("[0,4]", "[2,6]"), 6, {"'b'", "overlap"});
  refused_header(two("[0,4]", "[0,4]"), 4, {"overlap"});
  refused_header(two("[0,4]", "[5,9]"), 9, {"'b'", "belong to no tensor"});
  refused_header(two("[1,5]", "[5,9]"), 9, {"'a'", "belong to no tensor"});
  refused_header(two("[0,4]", "[4,8]"), 9, {"end at byte 8", "has 9"});
  refused_header("{}", 1, {"end at byte 0"});
}

// A header of so many tensors of four bytes each.
std::string header_of(std::size_t tensors) {
  std::string header = "{";
  for (std::size_t i = 0; i < tensors; ++i) {
    header += fmt::format("{}\"model.layers.{}.weight\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{},{}]}}",
                          i > 0 ? "," : "", i, 4 * i, 4 * i + 4);
  }
  return header + "}";
}

// A parser that looks through all tensors before for each one takes 2 minutes for 40,000 and an hour for 250,000; this takes
// some seconds. The bound leaves room for a busy machine and sanitizers.
TEST(ManyTensors, AreReadInTimeThatGrowsWithTheirNumber) {
  const auto begin = std::chrono::steady_clock::now();
  const auto most = static_cast<Bytes>(kMaxSafetensorsTensors);
  const SafetensorsHeader header = parse_safetensors_header(header_of(kMaxSafetensorsTensors), 4 * most, "many.safetensors");
  ASSERT_EQ(header.entries.size(), kMaxSafetensorsTensors);
  EXPECT_EQ(header.entries.back().end, 4 * most);
  const SafetensorsHeader again = parse_safetensors_header(format_safetensors_header(header).substr(8), 4 * most, "again");
  EXPECT_EQ(again.entries.size(), kMaxSafetensorsTensors);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(ManyTensors, MoreThanTheLimitAreRefused) {
  const std::size_t tensors = kMaxSafetensorsTensors + 1;
  EXPECT_ERROR(parse_safetensors_header(header_of(tensors), 4 * static_cast<Bytes>(tensors), "many.safetensors"),
               ExitCode::checkpoint, "many.safetensors", "250001 tensors", "250000");
}

// Two bytes of text make a value of eighty in memory.
TEST(ManyTensors, MoreValuesThanMemoryShouldHoldAreRefused) {
  std::string text = "[0";
  for (Count i = 1; i < kMostJsonValues; ++i) text += ",0";
  EXPECT_ERROR(parse_strict_json(text + "]", "zeros.json", 3), ExitCode::checkpoint, "zeros.json", "more than 4000000 values");
}

TEST_F(DamagedSafetensors, NotAFile) {
  EXPECT_ERROR(SafetensorsFile(folder_ / "nowhere"), ExitCode::io, "nowhere");
  EXPECT_ERROR(SafetensorsFile(folder_.path()), ExitCode::io, "directory");
}

TEST_F(DamagedSafetensors, ShorterWhileItIsRead) {
  write_bytes(file_, file_bytes(R"({"w":{"dtype":"F32","shape":[100000],"data_offsets":[0,400000]}})", 400'000));
  const SafetensorsFile file(file_);
  std::filesystem::resize_file(file_, 300'000);
  std::vector<float> values;
  EXPECT_ERROR(file.read(file.entries()[0], values), ExitCode::checkpoint, "'w'", "truncated");
}

// Every file cut short, and many with a few bytes changed, are read or refused: never anything else.
TEST_F(DamagedSafetensors, CutOrChangedAnywhere) {
  MemorySource source;
  source.add("first.weight", {3, 2});
  source.add("second", {2});
  write_safetensors(folder_.path(), source, {.metadata = {{"format", "pt"}}});
  const std::string whole = text_of(folder_ / kSingleFile);
  for (std::size_t length = 0; length < whole.size(); ++length) refused(whole.substr(0, length), {});
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string changed = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      changed[random() % (whole.size() - 32)] = static_cast<char>(random() % 256);
    }
    write_bytes(file_, changed);
    try {
      read_everything(file_);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    }
  }
}

class DamagedIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    MemorySource source;
    source.add("a", {4});
    source.add("b", {4});
    write_safetensors(folder_.path(), source, {.shard_bytes = 16});
  }
  void refused(const std::string& index, std::initializer_list<const char*> parts) {
    write_bytes(folder_ / kIndexFile, index);
    SCOPED_TRACE(index);
    expect_error([&] { SafetensorsFolder{folder_.path()}; }, ExitCode::checkpoint, parts);
  }
  TemporaryFolder folder_;
  const std::string one_ = "model-00001-of-00002.safetensors", two_ = "model-00002-of-00002.safetensors";
};

TEST_F(DamagedIndex, Refused) {
  refused("", {"not valid JSON"});
  refused(R"({"weight_map":{"a":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}}", {"nested deeper"});
  refused("[]", {"weight_map"});
  refused(R"({"weight_map":[]})", {"weight_map"});
  for (const char* file : {"\"../x.safetensors\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "\".\"", "\"a/b\"", "3"}) {
    refused(fmt::format(R"({{"weight_map":{{"a":{}}}}})", file), {"'a'", "not a file name"});
  }
  refused(R"({"weight_map":{"a":"model-9.safetensors"}})", {"model-9.safetensors", "missing"});
  const auto map = [&](const std::string& text) { return R"({"weight_map":{)" + text + "}}"; };
  refused(map("\"a\":\"" + two_ + "\",\"b\":\"" + one_ + "\""), {"'a'", "says"});
  refused(map("\"a\":\"" + one_ + "\",\"c\":\"" + two_ + "\""), {"'b'", "does not list it"});
  refused(map("\"a\":\"" + one_ + "\",\"b\":\"" + two_ + "\",\"c\":\"" + one_ + "\""), {"'c'", "is not"});
}

// Left behind by an earlier download, or put there to be taken for the model.
TEST_F(DamagedIndex, AFileThatItDoesNotNameIsNotRead) {
  MemorySource stray;
  stray.add("stray", {3});
  write_safetensors(folder_.path(), stray, {});  // model.safetensors
  std::filesystem::copy_file(folder_ / kSingleFile, folder_ / "model-00003-of-00003.safetensors");
  const SafetensorsFolder both(folder_.path());
  ASSERT_EQ(both.tensors().size(), 2u);
  EXPECT_EQ(both.tensors()[0].name, "a");
  EXPECT_EQ(both.tensors()[1].name, "b");
  EXPECT_EQ(both.notes(), (std::vector<std::string>{
                              "model-00003-of-00003.safetensors is not read: model.safetensors.index.json does not list it",
                              "model.safetensors is not read: model.safetensors.index.json does not list it"}));
  std::filesystem::remove(folder_ / kIndexFile);
  const SafetensorsFolder single(folder_.path());
  ASSERT_EQ(single.tensors().size(), 1u);
  EXPECT_EQ(single.tensors()[0].name, "stray");
  ASSERT_EQ(single.notes().size(), 3u);
  EXPECT_TRUE(single.notes()[0].starts_with(one_ + " is not read: without model.safetensors.index.json"));
}

TEST_F(DamagedIndex, NoWeightsAtAll) {
  const TemporaryFolder empty;
  EXPECT_ERROR(SafetensorsFolder(empty.path()), ExitCode::checkpoint, "model.safetensors", "pytorch_model.bin");
}

}  // namespace
}  // namespace cohort::test
