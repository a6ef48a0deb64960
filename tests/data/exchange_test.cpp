// Token ids in files of other programs: what is damaged, or not what it says, is refused with file and place. What is right is
// compared with NumPy's files by exchange_test.py.
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.hpp"
#include "data/foreign/import_tokens.hpp"
#include "data/token_statistics.hpp"
#include "data/tokenizer_kind.hpp"
#include "hdf5/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using test::TemporaryFolder;

template <class T>
std::string bytes(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& ids) {
  std::string header(1024, '\0');
  const std::int32_t numbers[]{magic, version, count};
  std::memcpy(header.data(), numbers, sizeof(numbers));
  return header + ids;
}

std::string npy(const std::string& dictionary, const std::string& ids) {
  return std::string("\x93NUMPY\x01\x00", 8) + bytes<std::uint16_t>({static_cast<std::uint16_t>(dictionary.size())}) +
         dictionary + ids;
}

std::string index_of(std::uint8_t type, std::initializer_list<std::int32_t> lengths, std::initializer_list<std::int64_t> pointers,
                     std::initializer_list<std::int64_t> documents) {
  return std::string("MMIDIDX\0\0", 9) + bytes<std::uint64_t>({1}) + bytes<std::uint8_t>({type}) +
         bytes<std::uint64_t>({lengths.size(), documents.size()}) + bytes(lengths) + bytes(pointers) + bytes(documents);
}

class Exchange : public ::testing::Test {
 protected:
  void refuse(const std::string& name, const std::string& content, std::initializer_list<const char*> said,
              ExitCode code = ExitCode::data, const std::string& format = "auto") {
    write_file_atomically(folder_ / name, content);
    test::expect_error(
        [&] {
          import_tokens({.inputs = {folder_ / name}, .output = folder_ / "x.h5", .format = format, .validation = 0.5}, *byte_);
        },
        code, said);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.h5"));
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> byte_ = learn_tokenizer("byte", {}, {});
};

TEST_F(Exchange, RefusesWhatIsNotWhatItSays) {
  const std::string ids = bytes<std::uint16_t>({1, 2, 3, 4});
  refuse("a.bin", ids, {"--format nanogpt"}, ExitCode::usage);
  refuse("a.bin", ids, {"unknown format 'tiff'", "megatron"}, ExitCode::usage, "tiff");
  refuse("a.bin", ids + "x", {"9 bytes", "truncated"}, ExitCode::data, "nanogpt");
  refuse("a.bin", bytes<std::uint16_t>({1, 2, 300, 4}), {"token 2, at byte 4 of the file, is 300", "vocabulary of 256"},
         ExitCode::data, "nanogpt");
  refuse("a.bin", "", {"no tokens"}, ExitCode::data, "nanogpt");
  refuse("a.bin", llmc(20240520, 1, 5, ids), {"5 tokens", "1032 bytes", "truncated"});
  refuse("a.bin", llmc(20240520, 1, 3, ids), {"3 tokens", "damaged"});
  refuse("a.bin", llmc(20240520, 2, 4, ids), {"version 2"});
  refuse("a.bin", llmc(20240520, 1, 4, ids).substr(0, 1000), {"truncated within its header"});
  refuse("a.bin", ids + llmc(5, 1, 4, ids), {"begins with 131073", "20240520"}, ExitCode::data, "llmc");
  const std::string shape = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }";
  refuse("a.npy", npy(shape, ids).substr(0, 40), {"truncated within its header"});
  refuse("a.npy", npy(shape, ids + "xx"), {"4 tokens", "damaged"});
  // Eight bytes for each of them would be 2^64, or 0.
  refuse("a.npy", npy("{'descr': '<u8', 'fortran_order': False, 'shape': (2305843009213693952,), }", ""),
         {"2305843009213693952 tokens", "but the file has"});
  refuse("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", ids), {"'<f4'", "integers"});
  refuse("a.npy", npy("{'descr': '>u2', 'fortran_order': False, 'shape': (4,), }", ids), {"little-endian"});
  refuse("a.npy", npy("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }", ids), {"Fortran"});
  refuse("a.npy", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (4,), }", bytes<std::int16_t>({1, -1, 2, 3})),
         {"is -1"});
}

TEST_F(Exchange, RefusesAnIndexThatDisagreesWithItsData) {
  const std::string ids = bytes<std::uint16_t>({1, 2, 3, 4, 5});
  const std::string good = index_of(8, {2, 0, 3}, {0, 4, 4}, {0, 1, 3});
  const auto refuse_index = [&](const std::string& index, const std::string& data, std::initializer_list<const char*> said) {
    write_file_atomically(folder_ / "m.bin", data);
    refuse("m.idx", index, said);
  };
  refuse_index(good, ids + ids, {"m.bin", "m.idx says 5 tokens", "20 bytes"});
  refuse_index(good, ids.substr(0, 8), {"m.bin", "truncated"});
  refuse_index(good.substr(0, good.size() - 8), ids, {"m.idx", "truncated"});
  refuse_index(good.substr(0, 20), ids, {"m.idx", "MMIDIDX"});
  refuse_index("PK" + good, ids, {"m.idx", "MMIDIDX"});
  refuse_index(index_of(6, {2, 3}, {0, 4}, {0, 2}), ids, {"m.idx", "type 6"});
  refuse_index(index_of(8, {2, 3}, {0, 6}, {0, 2}), ids, {"sequence 1", "from byte 6", "expected: from byte 4"});
  refuse_index(index_of(8, {2, -3}, {0, 4}, {0, 2}), ids, {"sequence 1", "-3 tokens"});
  refuse_index(index_of(8, {2, 3}, {0, 4}, {0, 2, 1}), ids, {"document entry 2", "sequence 1, behind 2"});
  refuse_index(index_of(8, {2, 3}, {0, 4}, {0, 2, 7}), ids, {"document entry 2", "is sequence 7, but there are 2"});
}

TEST_F(Exchange, SixteenBitsAreTooFewForALargeVocabulary) {
  std::string wide = R"({"kind": "char", "code_points": [)";
  for (std::uint32_t c = 0; c < 70'000; ++c) {
    if (c < 0xD800 || c >= 0xE000) wide += fmt::format("{}{}", c == 0 ? "" : ",", c);
  }
  const std::unique_ptr<Tokenizer> tokenizer = read_tokenizer(wide + "]}", "test");
  ASSERT_LT(tokenizer->vocabulary_size(), 70'000);
  const auto import = [&](const std::string& name, const std::string& format) {
    return import_tokens({.inputs = {folder_ / name}, .output = folder_ / "x.h5", .format = format, .validation = 0.5},
                         *tokenizer);
  };
  write_file_atomically(folder_ / "a.bin", bytes<std::uint16_t>({1, 2, 3, 4}));
  EXPECT_ERROR(import("a.bin", "nanogpt"), ExitCode::data, "16 bits", "ids above 65535");
  write_file_atomically(folder_ / "b.bin", llmc(20240801, 7, 4, bytes<std::uint32_t>({1, 2, 67000, 4})));
  EXPECT_EQ(import("b.bin", "auto").validation, 2);
  const TokenFile file(folder_ / "x.h5");
  EXPECT_EQ(file.token_bytes(), 4);
  EXPECT_ERROR(export_tokens(file, "nanogpt", exported_files(folder_ / "out")), ExitCode::data, "16-bit ids", "llmc");
  export_tokens(file, "llmc", exported_files(folder_ / "out"));
  EXPECT_EQ(test::text_of(folder_ / "out/val.bin"), llmc(20240801, 7, 2, bytes<std::uint32_t>({67000, 4})));
}

TEST_F(Exchange, ADocumentsListThatDisagreesIsRefused) {
  const auto write = [&](std::initializer_list<std::uint64_t> starts) {
    {
      TokenFileWriter writer(folder_ / "d.h5", *byte_, 6, 2, {}, std::nullopt, {2, 1});
      const std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
      writer.begin_document();
      writer.append(std::span(ids).first(4));
      writer.begin_document();
      writer.append(std::span(ids).subspan(4));
      writer.finish();
    }
    // The offsets stand in the file as they are.
    std::string content = test::text_of(folder_ / "d.h5");
    const std::string before = bytes<std::uint64_t>({0, 4, 6});
    ASSERT_NE(content.find(before), std::string::npos);
    write_file_atomically(folder_ / "d.h5", content.replace(content.find(before), before.size(), bytes(starts)));
  };
  write({0, 4, 6});
  EXPECT_NO_THROW(TokenFile(folder_ / "d.h5").verify());
  write({0, 4, 7});
  EXPECT_ERROR(TokenFile(folder_ / "d.h5"), ExitCode::data, "/documents/train", "to 7", "has 6 tokens");
  write({0, 0, 6});
  EXPECT_ERROR(TokenFile(folder_ / "d.h5").verify(), ExitCode::data, "/documents/train", "entry 1 is 0");
  write({0, 3, 6});
  EXPECT_ERROR(TokenFile(folder_ / "d.h5").verify(), ExitCode::data, "/documents/train", "checksum");
}

TEST_F(Exchange, StatisticsSayWhatIsBad) {
  // "é" is whole across tokens, "\xFF" is none, and the first half of one at the end of a split is none either.
  const std::vector<std::int32_t> ids{'a', 0xC3, 0xA9, 0xFF, 'b', 0xE6, 'c', 0xC3};
  TokenFileWriter writer(folder_ / "s.h5", *byte_, 6, 2, {}, std::nullopt, {2, 1});
  writer.begin_document();
  writer.append(std::span(ids).first(1));
  writer.begin_document();
  writer.append(std::span(ids).subspan(1));
  writer.finish();
  const TokenStatistics statistics = statistics_of(TokenFile(folder_ / "s.h5"));
  EXPECT_EQ(statistics.counts[0xC3], 2);
  EXPECT_EQ(statistics.not_utf8.count, 3);
  EXPECT_EQ(statistics.not_utf8.first->token, 3);
  EXPECT_EQ(statistics.without_text.count, 0);
  EXPECT_EQ(statistics.documents.documents, 3);
  EXPECT_EQ(statistics.documents.shortest, 1);
  EXPECT_EQ(statistics.documents.longest, 5);
  EXPECT_EQ(statistics.documents.by_size, (std::vector<Count>{1, 1, 1}));
}

}  // namespace
}  // namespace cohort
