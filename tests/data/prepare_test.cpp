// Preparing texts: the tokens are the text, cut at the right place, and what cannot be prepared is refused.
#include "data/prepare.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "base/file.hpp"
#include "data/synth_stories.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

std::string decoded(const TokenFile& file, Split split) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens(split)));
  file.read(split, 0, ids);
  return file.tokenizer().decode(ids);
}

TEST(Prepare, JoinsTextsAndCutsTheTail) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "1.txt", "abcdefgh\r\n");
  write_file_atomically(folder / "2.txt", "Z\xC3\xBCrich\r\n0123");  // 12 characters, 13 bytes
  for (const std::string tokenizer : {"byte", "char"}) {
    const std::string path = folder / "x.h5";
    const Prepared prepared = prepare_tokens({{folder / "1.txt", folder / "2.txt"}, path, tokenizer, 0.25});
    const TokenFile file(path);
    file.verify();
    const Count tokens = tokenizer == "byte" ? 23 : 22;
    EXPECT_EQ(prepared.train + prepared.validation, tokens);
    EXPECT_EQ(prepared.validation, 6);  // a quarter, rounded
    EXPECT_EQ(decoded(file, Split::train) + decoded(file, Split::validation), "abcdefgh\r\nZ\xC3\xBCrich\r\n0123");
    EXPECT_EQ(decoded(file, Split::validation), "\r\n0123");
    EXPECT_EQ(prepared.vocabulary_size, tokenizer == "byte" ? 256 : 18);
    EXPECT_FALSE(file.entropy().has_value());
    ASSERT_EQ(file.sources().size(), 2u);
    EXPECT_EQ(file.sources()[1].bytes, 13);
    ASSERT_EQ(prepared.notes.size(), 2u);
    EXPECT_NE(prepared.notes[0].find("1 line ends in CRLF"), std::string::npos);
  }
}

TEST(Prepare, OdditiesAreNoted) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "1.txt", "\xEF\xBB\xBFone\rtwo\rthree and four");
  const Prepared prepared = prepare_tokens({{folder / "1.txt"}, folder / "x.h5", "char", 0.5});
  ASSERT_EQ(prepared.notes.size(), 2u);
  EXPECT_NE(prepared.notes[0].find("2 carriage returns"), std::string::npos);
  EXPECT_NE(prepared.notes[1].find("byte order mark"), std::string::npos);
}

TEST(Prepare, CarriesTheEntropyOfUnchangedStories) {
  const TemporaryFolder folder;
  const CorpusFacts one = write_story_corpus(folder / "1.txt", 1, 30, 0);
  const CorpusFacts two = write_story_corpus(folder / "2.txt", 2, 90, 0);
  for (const std::string tokenizer : {"byte", "char", "bpe"}) {
    PrepareOptions options{{folder / "1.txt", folder / "2.txt"}, folder / "x.h5", tokenizer, 0.1};
    if (tokenizer == "bpe") options.learning.vocabulary = 300;
    const Prepared prepared = prepare_tokens(options);
    ASSERT_TRUE(prepared.entropy.has_value());
    const TokenFile file(folder / "x.h5");
    const auto tokens = static_cast<double>(prepared.train + prepared.validation);
    // Whatever the tokens, the text costs the same; a few roundings.
    const double exact = story_entropy_nats_per_character() * static_cast<double>(one.bytes + two.bytes);
    EXPECT_NEAR(file.entropy()->exact * tokens, exact, 1e-12 * exact);
    const double empirical = one.empirical_nats_per_character * static_cast<double>(one.bytes) +
                             two.empirical_nats_per_character * static_cast<double>(two.bytes);
    EXPECT_NEAR(file.entropy()->empirical * tokens, empirical, 1e-12 * empirical);
  }
  write_file_atomically(folder / "2.txt", read_file(folder / "2.txt") + "and more");
  EXPECT_FALSE(prepare_tokens({{folder / "1.txt", folder / "2.txt"}, folder / "x.h5", "char", 0.1}).entropy.has_value());
}

TEST(Prepare, RefusesWhatCannotBePrepared) {
  const TemporaryFolder folder;
  const std::string out = folder / "x.h5";
  write_file_atomically(folder / "good.txt", "abcdefghij");
  write_file_atomically(folder / "empty.txt", "");
  write_file_atomically(folder / "latin1.txt", "abc \xE9t\xE9 abcdefgh");
  write_file_atomically(folder / "short.txt", "abc");
  const auto prepare = [&](const std::string& name, const std::string& tokenizer = "char", double validation = 0.5) {
    prepare_tokens({{folder / name}, out, tokenizer, validation});
  };
  EXPECT_ERROR(prepare("absent.txt"), ExitCode::io, "absent.txt");
  EXPECT_ERROR(prepare("."), ExitCode::io, "directory");
  EXPECT_ERROR(prepare("empty.txt"), ExitCode::data, "empty.txt", "empty");
  EXPECT_ERROR(prepare("latin1.txt"), ExitCode::data, "latin1.txt", "byte 4", "E9");
  EXPECT_ERROR(prepare("short.txt"), ExitCode::data, "1 token for training and 2 for validation", "at least 2");
  EXPECT_ERROR(prepare("good.txt", "char", 0.1), ExitCode::data, "9 tokens for training and 1 for validation");
  EXPECT_ERROR(prepare("good.txt", "wordpiece"), ExitCode::usage, "'wordpiece'", "bpe and byte and char");
  EXPECT_ERROR(prepare("good.txt", "bpe"), ExitCode::usage, "vocabulary of 0", "--vocabulary");
  for (const double share : {0.0, 1.0, -0.1, 7.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_ERROR(prepare("good.txt", "char", share), ExitCode::usage, "between 0 and 1");
  }
  EXPECT_ERROR(prepare_tokens({{folder / "good.txt"}, folder / "good.txt", "byte", 0.5}), ExitCode::usage, "overwritten");
  EXPECT_ERROR(prepare_tokens({{folder / "good.txt"}, folder.path(), "byte", 0.5}), ExitCode::io, "folder");
  EXPECT_ERROR(prepare_tokens({{}, out, "byte", 0.5}), ExitCode::usage, "--input");
  if (::geteuid() != 0) {  // root reads everything
    std::filesystem::permissions(folder / "good.txt", std::filesystem::perms::none);
    EXPECT_ERROR(prepare("good.txt"), ExitCode::io, "good.txt", "Permission denied");
  }
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".tmp"));
  EXPECT_NO_THROW(prepare("latin1.txt", "byte"));  // bytes are bytes
}

}  // namespace
}  // namespace cohort
