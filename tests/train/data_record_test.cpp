// What checkpoints record of their data, and what is compared of it.
#include "train/data_record.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "data/prepare.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

constexpr const char* kOfVersion010 = "stories.h5 train=900 crc32=1234abcd validation=100 crc32=89ab4567";
const std::string kRecord = std::string(kOfVersion010) + " tokenizer=char vocabulary=65 crc32=0badcafe";

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

TEST(DataRecord, OfATokenFile) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a.txt") << "abcabcabcabcabcabcab";
  prepare_tokens({.inputs = {folder / "a.txt"}, .output = folder / "a b.h5", .tokenizer = "char"});
  const TokenFile file(folder / "a b.h5");
  // The tokens are 0 1 2 0 1 2 ... in 16 bits; checksums from Python's zlib.crc32.
  EXPECT_EQ(record_of(file),
            "a b.h5 train=18 crc32=d7837650 validation=2 crc32=385fee5d tokenizer=char vocabulary=3 crc32=61330a7d");
  EXPECT_EQ(tokenizer_of_record(record_of(file)), "char, vocabulary=3, crc32=61330a7d");
  EXPECT_TRUE(data_changes(record_of(file), record_of(file)).empty());
}

TEST(DataRecord, TheNameOfTheFileIsNotCompared) {
  for (const char* name : {"other.h5", "a b.h5", "x train=5 tokenizer=byte.h5", ""})
    EXPECT_TRUE(data_changes(kRecord, replaced(kRecord, "stories.h5", name)).empty()) << name;
}

TEST(DataRecord, AllElseIs) {
  for (const char* part : {"900", "1234abcd", "100", "89ab4567"}) {
    const auto changes = data_changes(kRecord, replaced(kRecord, part, "77"));
    ASSERT_EQ(changes.size(), 1U) << part;
    EXPECT_EQ(changes[0], "data: " + kRecord + " in the checkpoint, " + replaced(kRecord, part, "77") + " now");
  }
  const auto changes = data_changes(kRecord, replaced(kRecord, "0badcafe", "77"));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0], "tokenizer: char, vocabulary=65, crc32=0badcafe in the checkpoint, char, vocabulary=65, crc32=77 now");
  EXPECT_EQ(data_changes(replaced(kRecord, "900", "901"), replaced(kRecord, "char", "byte")).size(), 2U);
}

TEST(DataRecord, OfAnOlderCheckpointTheTokensAreComparedAlone) {
  EXPECT_EQ(tokenizer_of_record(kOfVersion010), "");
  EXPECT_TRUE(data_changes(kOfVersion010, replaced(kRecord, "stories.h5", "other.h5")).empty());
  EXPECT_EQ(data_changes(kOfVersion010, replaced(kRecord, "900", "901")).size(), 1U);
}

TEST(DataRecord, OfImportedWeightsTheTokenizerIsThatInTheCheckpoint) {
  TrainingState state;
  EXPECT_EQ(tokenizer_of(state), "");
  state.tokenizer = R"({"kind":"char","code_points":[97,98,99]})";
  EXPECT_EQ(tokenizer_of(state), "char, vocabulary=3, crc32=61330a7d") << "as in OfATokenFile";
  state.data = kRecord;
  EXPECT_EQ(tokenizer_of(state), "char, vocabulary=65, crc32=0badcafe") << "what was trained on";
  EXPECT_EQ(tokenizer_of_record(kRecord), tokenizer_of(state));
}

TEST(DataRecord, OfAMixtureIsComparedBySourceAndOrder) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "a.txt") << "abcabcabcabcabcabcab";
  prepare_tokens({.inputs = {folder / "a.txt"}, .output = folder / "a.h5", .tokenizer = "char"});
  const auto file = std::make_shared<const TokenFile>(folder / "a.h5");
  const std::string web = "web/train=18 crc32=d7837650 web/validation=2 crc32=385fee5d";
  const std::string code = "code/train=18 crc32=d7837650 code/validation=2 crc32=385fee5d";
  const std::string tokenizer = " tokenizer=char vocabulary=3 crc32=61330a7d";
  const std::string mixture = "mixture " + web + " " + code + tokenizer;
  EXPECT_EQ(record_of({{"web", file}, {"code", file}}), mixture);
  EXPECT_EQ(tokenizer_of_record(mixture), "char, vocabulary=3, crc32=61330a7d");
  EXPECT_TRUE(data_changes(mixture, mixture).empty());
  for (const std::string& other :
       {replaced(mixture, "d7837650", "77"), replaced(mixture, "code/validation=2", "code/validation=3"),
        replaced(mixture, "code", "books"), "mixture " + code + " " + web + tokenizer, "mixture " + web + tokenizer,
        record_of(*file), kRecord})
    EXPECT_GE(data_changes(mixture, other).size(), 1U) << other;
  const auto changes = data_changes(mixture, replaced(mixture, "61330a7d", "77"));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0], "tokenizer: char, vocabulary=3, crc32=61330a7d in the checkpoint, char, vocabulary=3, crc32=77 now");
}

TEST(DataRecord, OfPointsIsComparedWhole) {
  const std::string moons = "two_moons samples=1000 inputs=2 seed=1";
  EXPECT_TRUE(data_changes(moons, moons).empty());
  EXPECT_EQ(data_changes(moons, "two_moons samples=40 inputs=2 seed=1").size(), 1U);
  EXPECT_EQ(data_changes(moons, kRecord).size(), 1U);
  EXPECT_EQ(data_changes("", kRecord).size(), 1U) << "imported weights";
}

}  // namespace
}  // namespace cohort
