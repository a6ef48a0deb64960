// Safetensors written and read again: types, shards, and bytes as the format wants them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "interchange/safetensors_writer.hpp"
#include "safetensors_fixture.hpp"

namespace cohort::test {
namespace {

namespace fs = std::filesystem;

MemorySource small_source() {
  MemorySource source;
  source.add("b.weight", {3, 4});
  source.add("a", {5});
  source.add("nothing", {0, 7});
  source.add("one", {});
  return source;
}

TEST(Safetensors, WrittenAsTheFormatSays) {
  const TemporaryFolder folder;
  MemorySource source;
  source.add("x", {2}, {1.0f, -2.0f});
  write_safetensors(folder.path(), source, {.metadata = {{"format", "pt"}}});
  const std::string bytes = text_of(folder / kSingleFile);
  const std::uint64_t length = static_cast<unsigned char>(bytes.at(0));  // below 256
  EXPECT_EQ(bytes.substr(0, 8), length_prefix(length));
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(nlohmann::json::parse(bytes.substr(8, length)),
            nlohmann::json::parse(R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"));
  EXPECT_EQ(bytes.substr(8 + length), std::string("\0\0\x80\x3f\0\0\0\xc0", 8));  // 1 and -2, little-endian
}

TEST(Safetensors, ReadAgainIsTheSame) {
  const TemporaryFolder folder;
  const MemorySource source = small_source();
  EXPECT_EQ(write_safetensors(folder.path(), source, {}), std::vector<std::string>{kSingleFile});
  const SafetensorsFolder again(folder.path());
  ASSERT_EQ(again.tensors().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read_by_name(again, source.tensors()[i].name), source.values_[i]);
  }
}

TEST(Safetensors, ShardsAndIndex) {
  const TemporaryFolder folder;
  const MemorySource source = small_source();  // of 48, 20, 0 and 4 bytes
  const std::vector<std::string> files = write_safetensors(folder.path(), source, {.shard_bytes = 24});
  EXPECT_EQ(files,
            (std::vector<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", kIndexFile}));
  const auto index = nlohmann::json::parse(text_of(folder / kIndexFile));
  EXPECT_EQ(index["metadata"]["total_size"], 72);
  EXPECT_EQ(index["weight_map"]["b.weight"], files[0]);
  EXPECT_EQ(index["weight_map"]["one"], files[1]);
  const SafetensorsFolder again(folder.path());
  EXPECT_EQ(again.tensors().size(), 4u);
  EXPECT_EQ(read_by_name(again, "a"), source.values_[1]);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST(Safetensors, SixteenBitsAreRoundedToNearestEven) {
  const TemporaryFolder folder;
  MemorySource source;
  const float half_way_down = std::bit_cast<float>(0x3f808000u), half_way_up = std::bit_cast<float>(0x3f818000u);
  source.add("x", {3}, {half_way_down, half_way_up, -0.0f});
  write_safetensors(folder.path(), source, {.dtype = DType::bf16});
  EXPECT_EQ(read_by_name(SafetensorsFolder(folder.path()), "x"),
            (std::vector<float>{std::bit_cast<float>(0x3f800000u), std::bit_cast<float>(0x3f820000u), -0.0f}));
  EXPECT_EQ(SafetensorsFile(folder / kSingleFile).entries()[0].dtype, "BF16");
}

// More elements than are converted at once.
TEST(Safetensors, LongTensors) {
  const TemporaryFolder folder;
  MemorySource source;
  std::vector<float> values(700'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 2048);  // exact in fp16
  source.add("x", {700'001}, values);
  write_safetensors(folder.path(), source, {.dtype = DType::f16});
  EXPECT_EQ(read_by_name(SafetensorsFolder(folder.path()), "x"), values);
}

TEST(Safetensors, Fp64IsReadAsFp32) {
  const TemporaryFolder folder;
  const double values[2] = {1.0 / 3.0, 1e300};
  const std::string header = R"({"x":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})";
  write_bytes(folder / kSingleFile,
              length_prefix(header.size()) + header + std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  EXPECT_EQ(read_by_name(SafetensorsFolder(folder.path()), "x"),
            (std::vector<float>{1.0f / 3.0f, std::numeric_limits<float>::infinity()}));
}

TEST(Safetensors, TooLargeForTheType) {
  const TemporaryFolder folder;
  MemorySource source;
  source.add("huge", {1}, {70000.0f});
  EXPECT_ERROR(write_safetensors(folder.path(), source, {.dtype = DType::f16}), ExitCode::checkpoint, "huge", "70000", "fp16");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  source.values_[0] = {std::numeric_limits<float>::infinity()};  // diverged weights stay what they are
  write_safetensors(folder.path(), source, {.dtype = DType::f16});
  EXPECT_TRUE(std::isinf(read_by_name(SafetensorsFolder(folder.path()), "huge")[0]));
}

TEST(Safetensors, ShardSizes) {
  EXPECT_EQ(parse_shard_size("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_shard_size("20KB"), 20'000);
  EXPECT_EQ(parse_shard_size("2MiB"), 2 * kMiB);
  EXPECT_EQ(parse_shard_size("77"), 77);
  for (const char* wrong : {"", "0", "0GB", "GB", "-1GB", "5 TB", "64KiBGB", "9000000000000GB", "1e3MB"}) {
    EXPECT_ERROR(parse_shard_size(wrong), ExitCode::usage, wrong);
  }
}

}  // namespace
}  // namespace cohort::test
