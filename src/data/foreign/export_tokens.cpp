#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/foreign/import_tokens.hpp"
#include "data/foreign/llmc_header.hpp"
#include "data/id_bytes.hpp"

namespace cohort {
namespace {

constexpr std::array kExportedSplits{Split::train, Split::validation};
constexpr Count kExportedBlock = 1 << 16;  // tokens at a time

// Removes a temporary file that was not made the real one.
struct TemporaryFile {
  std::filesystem::path path;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

std::vector<std::filesystem::path> exported_files(const std::filesystem::path& folder) {
  return {folder / "train.bin", folder / "val.bin"};
}

void export_tokens(const TokenFile& file, const std::string& format, const std::vector<std::filesystem::path>& paths,
                   const Progress& progress) {
  COHORT_CHECK(paths.size() == kExportedSplits.size(), "{} files for {} splits", paths.size(), kExportedSplits.size());
  const bool llmc = format == name_of(ForeignFormat::llmc);
  if (!llmc && format != name_of(ForeignFormat::nanogpt))
    fail(ExitCode::usage, "unknown format '{}'; tokens are written as: nanogpt, llmc", format);
  const Bytes id_bytes = file.token_bytes();
  if (!llmc && id_bytes > 2) {
    fail(ExitCode::data, "{}: nanoGPT's files have 16-bit ids, too few for a vocabulary of {}; llmc takes it", file.path(),
         file.vocabulary_size());
  }
  const Count total = file.tokens(Split::train) + file.tokens(Split::validation);
  Count done = 0;
  for (const Split split : kExportedSplits) {
    const std::filesystem::path& path = paths[static_cast<std::size_t>(split)];
    make_folders(path.parent_path());
    const std::string header = llmc ? llmc_header({id_bytes, file.tokens(split)}, path.string()) : "";
    const TemporaryFile temporary{path.string() + ".tmp"};
    std::ofstream out(temporary.path, std::ios::binary);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    std::vector<std::int32_t> ids;
    std::vector<char> bytes;
    for (Count begin = 0; begin < file.tokens(split) && out; begin += static_cast<Count>(ids.size())) {
      ids.resize(static_cast<std::size_t>(std::min(kExportedBlock, file.tokens(split) - begin)));
      file.read(split, begin, ids);
      bytes.resize(ids.size() * static_cast<std::size_t>(id_bytes));
      store_ids(ids, id_bytes, bytes.data());
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      done += static_cast<Count>(ids.size());
      if (progress) progress(static_cast<double>(done) / static_cast<double>(total));
    }
    out.close();
    if (!out) fail(ExitCode::io, "cannot write '{}': {}", temporary.path.string(), std::strerror(errno));
    commit_file(temporary.path, path);
  }
}

}  // namespace cohort
