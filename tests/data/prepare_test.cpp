// Preparing texts: the tokens are the text, cut at the right place, and what cannot be prepared is refused.
#include "data/prepare.hpp"
#include "data/token_documents.hpp"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

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
    ASSERT_EQ(prepared.notes.size(), 1u);
    EXPECT_NE(prepared.notes[0].find("2 lines end in CRLF"), std::string::npos);
  }
}

std::vector<std::uint64_t> starts(const TokenFile& file, Split split) {
  std::vector<std::uint64_t> entries(static_cast<std::size_t>(file.documents(split)) + 1);
  file.read_documents(split, 0, entries);
  return entries;
}

TEST(Prepare, DocumentsAreRecorded) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "1.txt", "abcd");
  write_file_atomically(folder / "2.jsonl", "{\"text\": \"efg\"}\n\n{\"text\": \"\"}\n{\"text\": \"hi\"}");
  write_file_atomically(folder / "3.txt", "jklmnop\n---\nq");
  PrepareOptions options{{folder / "1.txt", folder / "2.jsonl", folder / "3.txt"}, folder / "x.h5", "byte", 0.25};
  options.separator = "---";
  const Prepared prepared = prepare_tokens(options);
  EXPECT_EQ(prepared.documents, 5);
  ASSERT_EQ(prepared.notes.size(), 1u);
  EXPECT_NE(prepared.notes[0].find("1 empty document left out; the first is line 3"), std::string::npos) << prepared.notes[0];
  const TokenFile file(folder / "x.h5");
  file.verify();
  EXPECT_EQ(decoded(file, Split::train), "abcdefghijklm");
  EXPECT_EQ(decoded(file, Split::validation), "nop\nq");
  std::vector<Count> of_tokens;
  for (Count token = 0; token < file.tokens(Split::train); ++token) of_tokens.push_back(*document_at(file, Split::train, token));
  EXPECT_EQ(of_tokens, (std::vector<Count>{0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3}));
  // The document that the split divides is in both.
  EXPECT_EQ(starts(file, Split::train), (std::vector<std::uint64_t>{0, 4, 7, 9, 13}));
  EXPECT_EQ(starts(file, Split::validation), (std::vector<std::uint64_t>{0, 4, 5}));
  EXPECT_EQ(file.sources()[1].bytes, 5);
}

TEST(Prepare, DuplicatesAreLeftOut) {
  const TemporaryFolder folder;
  const std::string page(5000, 'x');
  write_file_atomically(folder / "1.txt", page + "1");
  write_file_atomically(folder / "2.txt", page + "2");
  write_file_atomically(folder / "3.txt", page + "1");
  write_file_atomically(folder / "4.jsonl",
                        "{\"text\": \"one\"}\n{\"text\": \"" + page + "2\"}\n{\"id\": 3, \"text\": \"one\"}\n");
  for (const Bytes piece : {Bytes{0}, Bytes{1 << 14}}) {
    PrepareOptions options{{folder.path()}, folder / "x.h5"};
    options.deduplicate = true;
    options.piece_bytes = piece;
    const Prepared prepared = prepare_tokens(options);
    EXPECT_EQ(prepared.documents, 3);
    EXPECT_EQ(prepared.duplicates, 3);
    const TokenFile file(folder / "x.h5");
    file.verify();
    EXPECT_TRUE(decoded(file, Split::train) + decoded(file, Split::validation) == page + "1" + page + "2one");
  }
  // Texts in several pieces, too; their pieces are those of the text alone.
  PrepareOptions options{{folder / "1.txt", folder / "2.txt", folder / "3.txt"}, folder / "x.h5"};
  options.deduplicate = true;
  options.piece_bytes = 1000;
  EXPECT_EQ(prepare_tokens(options).duplicates, 1);
}

TEST(Prepare, EndsOfDocumentsHaveATokenOnRequest) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "1.jsonl", "{\"text\": \"ab<|end|>\"}\n{\"text\": \"c\"}\n");
  PrepareOptions options{{folder / "1.jsonl"}, folder / "x.h5", "bpe", 0.4};
  options.learning = {.vocabulary = 257, .pattern = "", .special = {"<|end|>"}};
  options.end_of_document = "<|end|>";
  const Prepared prepared = prepare_tokens(options);
  EXPECT_EQ(prepared.train + prepared.validation, 9 + 1 + 1 + 1);
  const TokenFile file(folder / "x.h5");
  std::vector<std::int32_t> ids(2);
  file.read(Split::validation, file.tokens(Split::validation) - 2, ids);
  EXPECT_EQ(file.tokenizer().decode(ids), "c<|end|>");
  EXPECT_EQ(ids[1], 256);
  options.learning.special.clear();
  options.learning.vocabulary = 256;
  EXPECT_ERROR(prepare_tokens(options), ExitCode::usage, "--end-of-document '<|end|>'", "no special tokens");
}

// What ranks do one after the other.
void prepare_on(int ranks, const PrepareOptions& options) {
  const InputList inputs = Preparation::find_inputs(options);
  std::vector<std::unique_ptr<Preparation>> of_rank;
  std::unique_ptr<TokenizerLearner> sum;
  for (int rank = 0; rank < ranks; ++rank) {
    of_rank.push_back(std::make_unique<Preparation>(options, inputs));
    std::unique_ptr<TokenizerLearner> counts = of_rank[static_cast<std::size_t>(rank)]->count(rank, ranks, {});
    if (sum) sum->merge_counts(counts->counts());
    if (!sum) sum = std::move(counts);
  }
  const std::string tokenizer = of_rank[0]->learn(*sum, {});
  for (int rank = ranks - 1; rank >= 0; --rank) {
    of_rank[static_cast<std::size_t>(rank)]->use_tokenizer(tokenizer);
    of_rank[static_cast<std::size_t>(rank)]->encode(rank, ranks, {});
  }
  of_rank[0]->assemble({});
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

TEST(Prepare, RanksAndPiecesChangeNothing) {
  const TemporaryFolder folder;
  write_story_corpus(folder / "1.txt", 1, 300, 0);
  std::string text;  // lines of other scripts
  for (int i = 0; i < 400; ++i)
    text += fmt::format("\xD0\x9C\xD0\xB8\xD1\x80 {}.\n{}\xE6\xB1\x89\xE5\xAD\x97\xE3\x80\x82\n", i, i % 5 == 0 ? "\n" : "");
  write_file_atomically(folder / "2.txt", text);
  write_file_atomically(folder / "3.jsonl", "{\"text\": \"a line of its own\"}\n{\"text\": \"and one more\"}\n");
  write_gzip(folder / "4.txt.gz", text + read_file(folder / "1.txt"));  // which several ranks share
  for (const std::string wanted : {"gpt-2", "cl100k", ""}) {
    PrepareOptions options{
        {folder / "1.txt", folder / "2.txt", folder / "3.jsonl", folder / "4.txt.gz"}, folder / "one.h5", "char", 0.01};
    if (!wanted.empty()) {
      options.tokenizer = "bpe";
      options.learning = {.vocabulary = 400, .pattern = wanted, .special = {}};
    }
    prepare_tokens(options);
    const std::string one = test::text_of(folder / "one.h5");
    options.output = folder / "many.h5";
    for (const int ranks : {1, 2, 3, 7}) {
      for (const Bytes piece : {1000, 10'000, 1'000'000}) {
        options.piece_bytes = piece;
        prepare_on(ranks, options);
        EXPECT_TRUE(test::text_of(folder / "many.h5") == one) << wanted << " " << ranks << " " << piece;
      }
    }
    // A text that is encoded as a whole has the same tokens.
    const TokenFile file(folder / "one.h5");
    const std::vector<std::int32_t> whole = file.tokenizer().encode(read_file(folder / "1.txt"));
    std::vector<std::int32_t> ids(whole.size());
    file.read(Split::train, 0, ids);
    EXPECT_TRUE(ids == whole);
  }
}

TEST(Prepare, PartsThatAreDoneAreKept) {
  const TemporaryFolder folder;
  write_story_corpus(folder / "1.txt", 1, 300, 0);
  PrepareOptions options{{folder / "1.txt"}, folder / "x.h5"};
  options.piece_bytes = 4096;
  prepare_tokens(options);
  const std::string expected = test::text_of(folder / "x.h5");
  std::filesystem::remove(folder / "x.h5");
  const auto interrupted = [&] {  // rank 0 of 2 alone, killed before the end
    Preparation half(options, Preparation::find_inputs(options));
    half.use_tokenizer(R"({"kind": "byte"})");
    half.encode(0, 2, {});
  };
  interrupted();
  std::vector<std::filesystem::path> parts(std::filesystem::directory_iterator(folder / "x.h5.parts"), {});
  ASSERT_GT(parts.size(), 5u);
  const auto before = std::filesystem::last_write_time(parts[0]);
  // One that is damaged and one that is cut are made anew, the others stay.
  std::string damaged = test::text_of(parts[1]);
  damaged[damaged.size() - 50] ^= 1;
  write_file_atomically(parts[1], damaged);
  std::filesystem::resize_file(parts[2], 60);
  interrupted();
  EXPECT_EQ(std::filesystem::last_write_time(parts[0]), before);
  prepare_tokens(options);
  EXPECT_TRUE(test::text_of(folder / "x.h5") == expected);
  EXPECT_FALSE(std::filesystem::exists(folder / "x.h5.parts"));
  // Of a text that has changed, and with other options, none is taken.
  interrupted();
  write_file_atomically(folder / "1.txt", read_file(folder / "1.txt").replace(5, 1, "#"));
  prepare_tokens(options);
  EXPECT_EQ(decoded(TokenFile(folder / "x.h5"), Split::train)[5], '#');
}

TEST(Prepare, WhatIsWrongIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  std::string text(3000, 'a');
  for (std::size_t i = 79; i < text.size(); i += 80) text[i] = '\n';
  write_file_atomically(folder / "bad.txt", text + "b\xFF" + text);
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"abc\"}\n";
  write_file_atomically(folder / "broken.jsonl", lines + "{\"text\": \"abc\n" + lines);
  write_file_atomically(folder / "missing.jsonl", lines + lines + "{\"body\": \"abc\"}\n");
  write_file_atomically(folder / "abc.txt", "abcabcabc");
  prepare_tokens({{folder / "abc.txt"}, folder / "abc.h5", "char", 0.5});
  write_file_atomically(folder / "other.jsonl", lines + "{\"text\": \"abz\"}\n");
  for (const Bytes piece : {64, 1000, 100'000}) {
    const auto prepare = [&](const std::string& name, const std::string& tokenizer = "char") {
      PrepareOptions options{{folder / name}, folder / "x.h5", tokenizer};
      options.piece_bytes = piece;
      prepare_tokens(options);
    };
    EXPECT_ERROR(prepare("bad.txt"), ExitCode::data, "bad.txt: invalid UTF-8 at byte 3001");
    EXPECT_ERROR(prepare("broken.jsonl"), ExitCode::data, "broken.jsonl: line 101, at byte 1600", "broken JSON");
    EXPECT_ERROR(prepare("missing.jsonl"), ExitCode::data, "missing.jsonl: line 201", "no field 'text'", "body");
    EXPECT_ERROR(prepare("other.jsonl", folder / "abc.h5"), ExitCode::data, "other.jsonl: line 101", "'z' at byte 2");
    EXPECT_FALSE(std::filesystem::exists(folder / "x.h5"));
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

TEST(Prepare, OneAtATimeWritesATokenFile) {
  const TemporaryFolder folder;
  {
    const PartsLock first(folder.path());
    EXPECT_ERROR(PartsLock(folder.path()), ExitCode::io, "another `cohort data prepare`", "lock");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
  const PartsLock next(folder.path());
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
  EXPECT_FALSE(std::filesystem::exists(out + ".parts"));
  EXPECT_ERROR(prepare_tokens({{folder / "good.txt"}, folder / "no/folder/x.h5", "byte", 0.5}), ExitCode::io, "cannot create");
  EXPECT_FALSE(std::filesystem::exists(folder / "no"));
  EXPECT_NO_THROW(prepare("latin1.txt", "byte"));  // bytes are bytes
}

}  // namespace
}  // namespace cohort
