// Token files: what is written is read, and damaged, foreign or truncated files are refused with file, dataset and offset.
#include "data/token_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/random.hpp"
#include "data/tokenizer_kind.hpp"
#include "data/utf8.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;
using test::text_of;

constexpr const char* kText = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n";

// A char token file of kText, the last 10 tokens for validation. Returns its tokens.
std::vector<std::int32_t> write_example(const std::string& path, std::optional<TokenEntropy> entropy = std::nullopt) {
  const std::vector<std::string_view> texts{kText};
  const std::vector<std::string> sources{"hamlet.txt"};
  const auto tokenizer = learn_tokenizer("char", texts, sources);
  const auto ids = tokenizer->encode(kText);
  const auto size = static_cast<Count>(ids.size());
  TokenFileWriter writer(path, *tokenizer, size - 10, 10, {{"hamlet.txt", size}}, entropy);
  for (std::size_t begin = 0; begin < ids.size(); begin += 7) {  // blocks that do not respect the border
    writer.append(std::span(ids).subspan(begin, std::min<std::size_t>(7, ids.size() - begin)));
  }
  writer.finish();
  return ids;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
}

TEST(TokenFile, ComesBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto ids = write_example(path, TokenEntropy{0.5, 0.25});
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  const TokenFile file(path);
  EXPECT_EQ(file.tokens(Split::train), static_cast<Count>(ids.size()) - 10);
  EXPECT_EQ(file.tokens(Split::validation), 10);
  EXPECT_EQ(file.tokenizer().kind(), "char");
  EXPECT_EQ(file.sources().at(0).file, "hamlet.txt");
  EXPECT_EQ(file.sources().at(0).bytes, static_cast<Bytes>(ids.size()));
  EXPECT_EQ(file.entropy()->exact, 0.5);
  EXPECT_EQ(file.entropy()->empirical, 0.25);
  std::vector<std::int32_t> train(ids.size() - 10);
  std::vector<std::int32_t> validation(10);
  file.read(Split::train, 0, train);
  file.read(Split::validation, 0, validation);
  EXPECT_EQ(file.tokenizer().decode(train) + file.tokenizer().decode(validation), kText);
  std::vector<std::int32_t> middle(5);
  file.read(Split::train, 11, middle);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), ids.begin() + 11));
  EXPECT_NO_THROW(file.verify());
  EXPECT_ERROR(file.read(Split::validation, 6, middle), ExitCode::data, "x.h5", "/validation", "6 to 11", "has 10");
  EXPECT_ERROR(file.read(Split::train, -1, middle), ExitCode::data, "-1");
}

TEST(TokenFile, SameContentSameBytes) {
  const TemporaryFolder folder;
  write_example(folder / "a.h5");
  write_example(folder / "b.h5");
  EXPECT_EQ(text_of(folder / "a.h5"), text_of(folder / "b.h5"));
}

TEST(TokenFile, VocabulariesBeyond16BitsTakeFourBytes) {
  const TemporaryFolder folder;
  std::string text;
  for (const std::uint32_t count : {65536u, 65537u}) {
    text.clear();
    for (std::uint32_t c = 0; c < count; ++c) append_code_point(text, c < 0xD800 ? c : c + 0x800);
    const std::vector<std::string_view> texts{text};
    const std::vector<std::string> sources{"all"};
    const auto tokenizer = learn_tokenizer("char", texts, sources);
    ASSERT_EQ(tokenizer->vocabulary_size(), count);
    const auto ids = tokenizer->encode(text);
    const std::string path = folder / "wide.h5";
    TokenFileWriter writer(path, *tokenizer, count - 2, 2, {}, std::nullopt);
    writer.append(ids);
    writer.finish();
    const TokenFile file(path);
    EXPECT_EQ(file.token_bytes(), count <= 65536 ? 2 : 4);
    std::vector<std::int32_t> last(2);
    file.read(Split::validation, 0, last);
    EXPECT_EQ(last[1], static_cast<std::int32_t>(count) - 1);
    EXPECT_NO_THROW(file.verify());
  }
}

TEST(TokenFile, UnfinishedFilesLeaveNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto tokenizer = learn_tokenizer("byte", {}, {});
  { const TokenFileWriter writer(path, *tokenizer, 5, 5, {}, std::nullopt); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_ERROR(TokenFileWriter(path, *tokenizer, 5, 1, {}, std::nullopt), ExitCode::data,
               "5 tokens for training and 1 for validation");
  EXPECT_ERROR(TokenFileWriter(folder / "no/folder/x.h5", *tokenizer, 5, 5, {}, std::nullopt), ExitCode::io, "cannot be created");
  TokenFileWriter writer(path, *tokenizer, 2, 2, {}, std::nullopt);
  writer.append(std::vector<std::int32_t>{1, 2, 3});
  EXPECT_ERROR(writer.finish(), ExitCode::internal, "1 tokens of 2");
  EXPECT_ERROR(writer.append(std::vector<std::int32_t>{256}), ExitCode::internal, "token id 256");
  EXPECT_ERROR(writer.append(std::vector<std::int32_t>{4, 5}), ExitCode::internal, "more than were announced");
}

TEST(TokenFile, ForeignFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_ERROR(TokenFile(folder / "absent.h5"), ExitCode::io, "absent.h5: no such token file",
               "cohort data prepare --input TEXT");
  EXPECT_ERROR(TokenFile(folder / "stories.h5"), ExitCode::io, "stories.h5: no such token file", "`make stories` writes it");
  EXPECT_ERROR(TokenFile{folder.path()}, ExitCode::io, "directory");
  write_bytes(folder / "empty.h5", "");
  EXPECT_ERROR(TokenFile(folder / "empty.h5"), ExitCode::data, "empty.h5", "not an HDF5 file");
  write_bytes(folder / "text.h5", std::string(5000, 'x'));
  EXPECT_ERROR(TokenFile(folder / "text.h5"), ExitCode::data, "text.h5", "not an HDF5 file");
  hdf5::File::create(folder / "other.h5").close();
  EXPECT_ERROR(TokenFile(folder / "other.h5"), ExitCode::data, "other.h5", "not a token file", "cohort data prepare");
}

// A token file of version 1 made by hand, so that each part of it can be wrong.
struct Handmade {
  std::string format = "cohort-tokens";
  Count version = 1;
  Count vocabulary = 256;
  std::string tokenizer = R"({"kind": "byte"})";
  hdf5::Element element = hdf5::Element::u16;
  std::vector<Count> train_shape{3};
  std::vector<std::uint16_t> train{1, 2, 3};
  bool validation = true;
  Bytes chunk = 0;
  std::int64_t train_crc = -2;  // -2: the right one

  void write(const std::string& path) const {
    hdf5::File file = hdf5::File::create(path);
    file.set_attribute("format", format);
    file.set_attribute("version", version);
    file.set_attribute("vocabulary_size", vocabulary);
    file.set_attribute("tokenizer", std::string("byte"));
    file.set_attribute("tokenizer_crc32", crc(tokenizer.data(), tokenizer.size()));
    file.write_text("tokenizer", tokenizer);
    file.write_text("sources", "[]");
    hdf5::Dataset dataset = file.create_dataset("train", element, train_shape, {.chunk = chunk});
    if (element == hdf5::Element::u16) dataset.write_raw(train.data(), dataset.elements(), element);
    dataset.set_attribute("crc32", train_crc == -2 ? crc(train.data(), train.size() * 2) : train_crc);
    if (!validation) return;
    const std::vector<std::uint16_t> two{4, 5};
    hdf5::Dataset other = file.create_dataset("validation", hdf5::Element::u16, std::vector<Count>{2});
    other.write<std::uint16_t>(two);
    other.set_attribute("crc32", crc(two.data(), 4));
  }

  // Bit by bit, from the definition: not with the code under test.
  static std::int64_t crc(const void* data, std::size_t bytes) {
    std::uint32_t value = 0xFFFFFFFFu;
    for (std::size_t i = 0; i < bytes; ++i) {
      value ^= static_cast<const std::uint8_t*>(data)[i];
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? 0xEDB88320u : 0u);
    }
    return std::int64_t{value ^ 0xFFFFFFFFu};
  }
};

TEST(TokenFile, EachPartIsChecked) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto expect = [&](const Handmade& made, const char* part) {
    made.write(path);
    EXPECT_ERROR(TokenFile{path}, ExitCode::data, "x.h5", part);
  };
  Handmade().write(path);
  EXPECT_NO_THROW(TokenFile(path).verify());
  expect({.format = "something"}, "not a token file");
  expect({.version = 0}, "version 0");
  expect({.version = 2}, "no dataset '/checksums/train'");
  expect({.version = 4}, "version 4");
  expect({.vocabulary = 255}, "255");
  expect({.tokenizer = R"({"kind": "wordpiece"})"}, "'wordpiece'");
  expect({.element = hdf5::Element::f32}, "holds float32");
  expect({.element = hdf5::Element::u32}, "holds uint32");
  expect({.train_shape = {1, 3}}, "2 dims");
  expect({.train_shape = {}}, "0 dims");
  expect({.train_shape = {0}}, "0 tokens");
  expect({.train_shape = {1}}, "1 token,");
  expect({.validation = false}, "no dataset '/validation'");
  expect({.chunk = 2}, "h5repack -f NONE -l CONTI");
  expect({.train_crc = -1}, "impossible checksum");
}

TEST(TokenFile, WrongTokensAreFoundByReadingAndByVerifying) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  Handmade{.train = {1, 256, 3}}.write(path);
  std::vector<std::int32_t> ids(2);
  const TokenFile file(path);
  EXPECT_ERROR(file.read(Split::train, 1, ids), ExitCode::data, "x.h5", "/train", "offset 1 is 256", "vocabulary of 256");
  EXPECT_ERROR(file.verify(), ExitCode::data, "x.h5", "/train", "offset 1 is 256");
  Handmade{.train_crc = 7}.write(folder / "crc.h5");
  const TokenFile other(folder / "crc.h5");
  EXPECT_ERROR(other.verify(), ExitCode::data, "crc.h5", "/train", "checksum mismatch", "00000007 stored");
}

TEST(TokenFile, EveryCutIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_example(path);
  const std::string bytes = text_of(path);
  for (std::size_t size = 0; size < bytes.size(); size += 61) {
    write_bytes(path, bytes.substr(0, size));
    EXPECT_ERROR(TokenFile{path}, ExitCode::data, "x.h5");
  }
}

// Opens and reads all of a damaged copy of the example: refused by an Error of the data kind that names the file (true), or
// without effect on what is read (false). Nothing is misread, nothing crashes.
bool is_refused(const std::string& path, const std::vector<std::int32_t>& ids) {
  try {
    const TokenFile file(path);
    file.verify();
    std::vector<std::int32_t> train(ids.size() - 10);
    file.read(Split::train, 0, train);
    EXPECT_TRUE(std::equal(train.begin(), train.end(), ids.begin()));
    EXPECT_EQ(file.entropy()->exact, 0.5);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    EXPECT_NE(std::string(error.what()).find("x.h5"), std::string::npos) << error.what();
    return true;
  }
}

char flipped(char byte, std::size_t bit) { return static_cast<char>(static_cast<unsigned char>(byte) ^ (1u << bit)); }

// Over the whole file, headers and data: every fifth byte, and with it every bit of a byte in turn (5 and 8 have no common
// divisor).
TEST(TokenFile, EveryFlippedBitIsFoundOrHarmless) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto ids = write_example(path, TokenEntropy{0.5, 0.25});
  const std::string bytes = text_of(path);
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 5) {
    SCOPED_TRACE(fmt::format("byte {}", i));
    std::string damaged = bytes;
    damaged[i] = flipped(damaged[i], i % 8);
    write_bytes(path, damaged);
    refused += is_refused(path, ids) ? 1 : 0;
  }
  EXPECT_GT(refused, 100);  // at least the tokens and the headers
}

TEST(TokenFile, ManyFlippedBitsAreFound) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto ids = write_example(path, TokenEntropy{0.5, 0.25});
  const std::string bytes = text_of(path);
  const CounterRandom random(1, RandomPurpose::test);
  for (std::uint64_t round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    std::string damaged = bytes;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::size_t at = random.u64(round * 20 + i) % bytes.size();
      damaged[at] = flipped(damaged[at], i % 8);
    }
    write_bytes(path, damaged);
    is_refused(path, ids);
  }
}

TEST(TokenFile, ManyReadersOfAReadOnlyFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_example(path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const TokenFile one(path);
  const TokenFile two(path);
  std::vector<std::int32_t> a(5);
  std::vector<std::int32_t> b(5);
  one.read(Split::train, 3, a);
  two.read(Split::train, 3, b);
  EXPECT_EQ(a, b);
}

// h5py is what people have; any Python that has it will do.
TEST(TokenFile, H5pyReadsIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto ids = write_example(path, TokenEntropy{0.5, 0.25});
  std::string python;
  for (const char* candidate : {"python3", "/usr/bin/python3"}) {
    const std::string command = std::string(candidate) + " -c 'import h5py' 2>/dev/null";
    if (python.empty() && std::system(command.c_str()) == 0)  // NOLINT(bugprone-command-processor): fixed words
      python = candidate;
  }
  if (python.empty()) GTEST_SKIP() << "no Python with h5py here (Debian: python3-h5py)";
  write_bytes(folder / "read.py", R"(
import json, sys, zlib, h5py
f = h5py.File(sys.argv[1], "r")
assert f.attrs["format"].decode() == "cohort-tokens" and f.attrs["version"] == 2
assert f.attrs["entropy_nats_per_token"] == 0.5
points = json.loads(f["tokenizer"][()])["code_points"]
assert len(points) == f.attrs["vocabulary_size"]
for split in ("train", "validation"):
    assert f[split].dtype == "uint16" and zlib.crc32(f[split][()].tobytes()) == f[split].attrs["crc32"]
    blocks, size = f["checksums"][split], f["checksums"][split].attrs["block_tokens"]
    assert zlib.crc32(blocks[()].tobytes()) == blocks.attrs["crc32"]
    assert list(blocks) == [zlib.crc32(f[split][i:i + size].tobytes()) for i in range(0, len(f[split]), size)]
ids = list(f["train"][()]) + list(f["validation"][()])
sys.stdout.write("".join(chr(points[i]) for i in ids))
)");
  const std::string out = folder / "text.txt";
  const std::string command = python + " " + std::string(folder / "read.py") + " " + path + " > " + out;
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(bugprone-command-processor): names of this test
  EXPECT_EQ(text_of(out), kText);
}

}  // namespace
}  // namespace cohort
