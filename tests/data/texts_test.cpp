// Texts as they are stored: what streams decompress, and pieces that together are the text, whichever way they are read.
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "base/file.hpp"
#include "data/texts/json_line.hpp"
#include "data/texts/pieces.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

std::string gzipped(std::string_view text) {
  z_stream state{};
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  deflateEnd(&state);
  return packed.substr(0, state.total_out);
}

std::string zstandard(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

// Lines of many lengths, some of them without a space, with characters of one to four bytes.
std::string sample_text(std::size_t bytes) {
  std::string text;
  for (std::uint32_t i = 1; text.size() < bytes; ++i) {
    text += fmt::format("line {} of it", i);
    for (std::uint32_t k = 0; k < i * 7919 % 97; ++k) text += k % 5 == 0 ? "\xF0\x9F\x98\x80" : k % 3 == 0 ? "\xC3\xA9" : "x";
    text += i % 11 == 0 ? "\r\n" : i % 7 == 0 ? "\n\n" : "\n";
  }
  return text;
}

InputFile input(const std::string& path) { return list_inputs({path}, {}).files.at(0); }

std::string all_of(const std::string& path) {
  const std::unique_ptr<ByteStream> stream = open_byte_stream(input(path));
  std::string text, block(1000, '\0');
  while (const std::size_t got = stream->read(block)) text.append(block, 0, got);
  return text;
}

TEST(Texts, CompressedOnesAreToldByTheirBytesAndRead) {
  const TemporaryFolder folder;
  const std::string text = sample_text(700'000);
  const std::string path = folder / "text";
  for (const std::string& content : {text, gzipped(text), zstandard(text)}) {
    write_file_atomically(path, content);
    EXPECT_TRUE(all_of(path) == text);
    const std::unique_ptr<ByteStream> stream = open_byte_stream(input(path));
    stream->seek(600'001);
    std::string some(7, '\0');
    ASSERT_EQ(stream->read(some), 7u);
    EXPECT_EQ(some, text.substr(600'001, 7));
  }
  // One after the other; an empty one; padding.
  write_file_atomically(path, gzipped("a") + gzipped("") + gzipped("b") + std::string(1000, '\0'));
  EXPECT_EQ(all_of(path), "ab");
  write_file_atomically(path, zstandard("a") + zstandard("") + zstandard("b"));
  EXPECT_EQ(all_of(path), "ab");
}

TEST(Texts, DamagedCompressionIsRefusedWithItsPlace) {
  const TemporaryFolder folder;
  const std::string text = sample_text(300'000);
  const std::string path = folder / "text.gz";
  for (const std::string& whole : {gzipped(text), zstandard(text)}) {
    for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{11}}) {
      write_file_atomically(path, whole.substr(0, size));
      EXPECT_ERROR(all_of(path), ExitCode::data, "text.gz", "truncated", fmt::format("at byte {} of the file", size).c_str());
    }
    std::string damaged = whole;
    for (std::size_t i = 0; i < 40; ++i) damaged[whole.size() / 2 + i] = static_cast<char>(~damaged[whole.size() / 2 + i]);
    write_file_atomically(path, damaged);
    EXPECT_ERROR(all_of(path), ExitCode::data, "text.gz", "damaged near byte");
    write_file_atomically(path, whole + "something else");
    EXPECT_ERROR(all_of(path), ExitCode::data, "text.gz", "damaged near byte");
  }
}

TEST(Texts, AWindowThatNeedsTheMemoryOfAMachineIsRefusedAsSuch) {
  const TemporaryFolder folder;
  // A frame's magic number, no flags, and a window of 2^31 bytes (RFC 8878, section 3.1.1.1.2).
  write_file_atomically(folder / "long.zst", std::string("\x28\xb5\x2f\xfd\x00\xa8", 6) + std::string(100, 'x'));
  EXPECT_ERROR(all_of(folder / "long.zst"), ExitCode::data, "long.zst", "a window of more than 128", "--long");
}

// Pieces in order, and each alone by a reader of its own.
void expect_pieces_are(const std::string& text, const InputFile& file, const Framing& framing, Bytes size) {
  PieceReader in_order(file, framing, size);
  std::string joined;
  bool last = false;
  for (Count i = 0; in_order.read(i); ++i) {
    EXPECT_FALSE(last) << "a piece behind the last";
    EXPECT_EQ(in_order.begin(), static_cast<Bytes>(joined.size()));
    joined += in_order.text();
    PieceReader alone(file, framing, size);
    ASSERT_TRUE(alone.read(i));
    EXPECT_EQ(alone.text(), in_order.text());
    EXPECT_EQ(alone.last(), in_order.last());
    const bool within = !in_order.text().empty() && (static_cast<unsigned char>(in_order.text()[0]) & 0xC0u) == 0x80u;
    EXPECT_FALSE(within) << "cut within a character";
    last = in_order.last();
  }
  EXPECT_TRUE(last);
  EXPECT_TRUE(joined == text);
}

TEST(Texts, PiecesTogetherAreTheText) {
  const TemporaryFolder folder;
  const std::string lines = sample_text(20'000);
  std::string one_line;
  for (int i = 0; i < 3000; ++i) one_line += "\xE6\xB1\x89";
  for (const std::string& text : {lines, one_line, std::string("a"), lines.substr(0, 64), std::string(64, '\n')}) {
    for (const std::string& content : {text, gzipped(text), zstandard(text)}) {
      write_file_atomically(folder / "text", content);
      const InputFile file = input(folder / "text");
      for (const Bytes size : {16, 64, 1000, 50'000}) {
        expect_pieces_are(text, file, {}, size);
        expect_pieces_are(text, file, {Framing::Kind::lines, ""}, size);
        expect_pieces_are(text, file, {Framing::Kind::separated, ""}, size);
      }
    }
  }
}

TEST(Texts, RecordsAreWholeWhateverThePieces) {
  const TemporaryFolder folder;
  const std::string text = "one\nmore of one\n---\ntwo\r\n---\r\n---\n--- no\nthree\n---\n";
  write_file_atomically(folder / "text", text);
  for (const Bytes size : {16, 20, 1000}) {
    PieceReader reader(input(folder / "text"), {Framing::Kind::separated, "---"}, size);
    std::vector<std::string> records;
    Count empty = 0;
    for (Count i = 0; reader.read(i); ++i) {
      empty += for_each_record(reader.text(), {Framing::Kind::separated, "---"},
                               [&](std::string_view record, std::size_t) { records.emplace_back(record); });
    }
    EXPECT_EQ(records, (std::vector<std::string>{"one\nmore of one\n", "two\r\n", "--- no\nthree\n"})) << size;
    EXPECT_EQ(empty, 1);
  }
  EXPECT_EQ(line_of_byte(input(folder / "text"), static_cast<Bytes>(text.find("three"))), 8);
}

TEST(Texts, ALineOfJson) {
  EXPECT_EQ(text_in_json_line(R"({"id": {"text": "no"}, "text": "a\u00e9\n", "more": [1, {"text": 2}]})", "text"), "a\xC3\xA9\n");
  EXPECT_EQ(text_in_json_line(R"({"body": ""})", "body"), "");
  const auto line = [](const char* text) { text_in_json_line(text, "text"); };
  EXPECT_ERROR(line(R"({"text": "a)"), ExitCode::data, "broken JSON");
  EXPECT_ERROR(line("{} {}"), ExitCode::data, "broken JSON");
  EXPECT_ERROR(line("{\"text\": \"\xE9\"}"), ExitCode::data, "broken JSON", "UTF-8");
  EXPECT_ERROR(line(R"({"title": "x", "body": "y"})"), ExitCode::data, "no field 'text'", "title, body", "--field");
  EXPECT_ERROR(line(R"({"text": 5})"), ExitCode::data, "'text' is a number");
  EXPECT_ERROR(line(R"({"text": {"a": 1}})"), ExitCode::data, "'text' is an object");
  EXPECT_ERROR(line(R"({"text": null})"), ExitCode::data, "'text' is null");
  EXPECT_ERROR(line(R"(["text"])"), ExitCode::data, "not an object");
}

TEST(Texts, FoldersAndPatternsAreListedByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in/b");
  std::filesystem::create_directories(folder / "in/.git");
  for (const char* name :
       {"in/c.txt", "in/b/a.txt", "in/a.jsonl", "in/a.txt", "in/a.txt.json", "in/.hidden", "in/.git/x", "in/skip"})
    write_file_atomically(folder / name, "text");
  write_file_atomically(folder / "in/empty.txt", "");
  write_file_atomically(folder / "in/picture", std::string("\x89PNG\0\0", 6));
  write_file_atomically(folder / "in/archive.gz", gzipped(std::string("a\0b", 3)));
  const auto names = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> found;
    const InputList list = list_inputs(inputs, [](const std::string& path) { return path.ends_with("skip"); });
    for (const InputFile& file : InputList::unpack(list.pack()).files)
      found.push_back(std::filesystem::relative(file.path, folder.path()).string() + (file.json_lines ? " lines" : ""));
    return found;
  };
  const std::vector<std::string> all{"in/a.jsonl lines", "in/a.txt", "in/b/a.txt", "in/c.txt"};
  EXPECT_EQ(names({folder / "in"}), all);
  EXPECT_EQ(names({folder / "in/c.txt", folder / "in/*.txt"}), (std::vector<std::string>{"in/c.txt", "in/a.txt", "in/c.txt"}));
  EXPECT_EQ(list_inputs({folder / "in"}, {}).notes.size(), 3u);
  EXPECT_ERROR(names({folder / "in/*.md"}), ExitCode::data, "*.md", "quote it");
  std::filesystem::create_directory(folder / "none");
  EXPECT_ERROR(names({folder / "none"}), ExitCode::data, "gives no texts");
  EXPECT_ERROR(names({folder / "in/empty.txt"}), ExitCode::data, "empty.txt", "empty");
  EXPECT_ERROR(names({folder / "absent"}), ExitCode::io, "absent");
}

}  // namespace
}  // namespace cohort
