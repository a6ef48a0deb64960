// Fuzz target of what reads training data of others: ids in files of other programs, compressed texts, lines of JSON; and of the
// encoded parts that a killed preparation leaves. The input: a byte that says which kind, then the files of the kind
// (packed_files.hpp).
#include <fmt/format.h>

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>

#include "data/foreign/foreign_tokens.hpp"
#include "data/prepare/encoded_part.hpp"
#include "data/texts/json_line.hpp"
#include "data/texts/pieces.hpp"
#include "packed_files.hpp"
#include "target.hpp"

namespace cohort::fuzz {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* format;                // of ids; null: a text, or a part
  std::array<const char*, 2> files;  // of which the first is opened; null: one file
};
constexpr std::array<Kind, 8> kKinds{{{"npy", {"ids.npy", nullptr}},
                                      {"llmc", {"ids.bin", nullptr}},
                                      {"nanogpt", {"ids.bin", nullptr}},
                                      {"megatron", {"ids.idx", "ids.bin"}},
                                      {nullptr, {"text.gz", nullptr}},
                                      {nullptr, {"text.zst", nullptr}},
                                      {nullptr, {"lines.jsonl", nullptr}},
                                      {nullptr, {"text.part", nullptr}}}};

template <class T>
std::string numbers(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

void read_ids(const fs::path& path, const char* format) {
  const ForeignTokens tokens(path.string(), format);
  std::vector<std::int32_t> ids(1);
  for (Count i = 0; i < tokens.tokens(); ++i) tokens.read(i, ids, 256);
  for (const std::uint64_t start : tokens.documents()) {
    if (start >= static_cast<std::uint64_t>(tokens.tokens())) std::abort();
  }
}

void read_text(const fs::path& path) {
  const InputFile file = list_inputs({path.string()}, {}).files.at(0);
  const Framing framing{file.json_lines ? Framing::Kind::lines : Framing::Kind::whole, {}};
  PieceReader reader(file, framing, 64);
  for (Count i = 0; reader.read(i); ++i) {
    if (!file.json_lines) continue;
    for_each_record(reader.text(), framing, [](std::string_view line, std::size_t) { text_in_json_line(line, "text"); });
  }
}

void read_input(const fs::path& folder, const Kind& kind) {
  const fs::path path = folder / kind.files[0];
  if (kind.format != nullptr) {
    read_ids(path, kind.format);
  } else if (path.extension() == ".part") {
    const std::optional<EncodedPart> part = read_encoded_part(path);
    if (!part) fail(ExitCode::data, "no part");
  } else {
    read_text(path);
  }
}

std::string packed(char kind, std::initializer_list<std::string> files) {
  std::string input(1, kind);
  for (const std::string& file : files) append_file(input, file);
  return input;
}

std::string gzip_of(const fs::path& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return read_bytes(path);
}

std::string zstd_of(const std::string& text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  return bytes.substr(0, ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 3));
}

}  // namespace

std::vector<std::string> make_seeds(const fs::path& scratch_folder, bool) {
  const std::string ids = numbers<std::uint16_t>({1, 2, 3, 4, 5, 6});
  const std::string dictionary = "{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }\n";
  const auto size = static_cast<std::uint16_t>(dictionary.size());
  const std::string npy = std::string("\x93NUMPY\x01\x00", 8) + numbers({size}) + dictionary + ids;
  std::string llmc = numbers<std::int32_t>({20240520, 1, 6});
  llmc.resize(1024);
  const std::string index = std::string("MMIDIDX\0\0", 9) + numbers<std::uint64_t>({1}) + '\x08' +
                            numbers<std::uint64_t>({2, 3}) + numbers<std::int32_t>({2, 4}) +
                            numbers<std::int64_t>({0, 4, 0, 1, 2});
  std::string text, lines;
  for (int i = 0; i < 30; ++i) {
    text += fmt::format("Once there was fox {}.\n", i);
    lines += fmt::format("{{\"id\": [{}], \"text\": \"a fox \\u00e9\"}}\n", i);
  }
  write_encoded_part(scratch_folder / "x.part",
                     {.documents = {{.tokens = 6}}, .pieces = {{}}, .ids = {1, 0, 2, 0, 3, 0}, .tokens = 6});
  return {packed(0, {npy}),
          packed(1, {llmc + ids}),
          packed(2, {ids}),
          packed(3, {index, ids}),
          packed(4, {gzip_of(scratch_folder / "x.gz", text)}),
          packed(5, {zstd_of(text)}),
          packed(6, {lines}),
          packed(7, {read_bytes(scratch_folder / "x.part")})};
}

}  // namespace cohort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fs = std::filesystem;
  using namespace cohort::fuzz;
  const fs::path folder = fs::temp_directory_path() / fmt::format("cohort_fuzz_data_{}", ::getpid());
  fs::create_directories(folder);
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const Kind& kind = kKinds[input.empty() ? 0 : static_cast<unsigned char>(input.front()) % kKinds.size()];
  input.remove_prefix(std::min<std::size_t>(1, input.size()));
  for (const char* name : kind.files) {
    if (name != nullptr) write_bytes(folder / name, take_file(input));
  }
  expect_no_surprise(cohort::ExitCode::data, [&] { read_input(folder, kind); });
  fs::remove_all(folder);
  return 0;
}
