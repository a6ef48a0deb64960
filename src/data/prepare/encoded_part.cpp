#include "data/prepare/encoded_part.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>

#include "base/checksum.hpp"
#include "base/error.hpp"

namespace cohort {
namespace {

constexpr std::uint64_t kPartMagic = 0x3274726170686f63;  // "cohpart2"

// In front of the documents, the facts of the pieces and the ids.
struct PartHeader {
  std::uint64_t magic = kPartMagic;
  std::uint64_t documents = 0, pieces = 0, id_bytes = 0, counted = 0;
  std::int64_t tokens = 0;
  std::uint64_t last = 0;
  std::uint64_t crc32 = 0;  // of what follows, and of the header with 0 here
};

template <class T>
std::span<const char> bytes_of(const std::vector<T>& values) {
  static_assert(std::has_unique_object_representations_v<T>);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// What follows the header.
std::array<std::span<const char>, 4> blocks_of(const EncodedPart& part) {
  return {bytes_of(part.documents), bytes_of(part.pieces), bytes_of(part.ids), bytes_of(part.counted)};
}

std::uint64_t checksum(PartHeader header, const EncodedPart& part) {
  header.crc32 = 0;
  std::uint32_t crc = extend_crc32(0, &header, sizeof(header));
  for (const std::span<const char> bytes : blocks_of(part)) crc = extend_crc32(crc, bytes.data(), bytes.size());
  return crc;
}

}  // namespace

void write_encoded_part(const std::filesystem::path& path, const EncodedPart& part) {
  PartHeader header{.documents = part.documents.size(),
                    .pieces = part.pieces.size(),
                    .id_bytes = part.ids.size(),
                    .counted = part.counted.size(),
                    .tokens = part.tokens,
                    .last = part.last ? 1u : 0u};
  header.crc32 = checksum(header, part);
  // A text that is an input twice gives two ranks the same part to write, perhaps on two hosts.
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.{}.tmp", host.data(), ::getpid());
  // Without fsync, which would cost more than the encoding: a part that a power failure left short has another checksum.
  std::ofstream file(temporary, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::span<const char> bytes : blocks_of(part)) file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error)
    fail(ExitCode::io, "cannot write '{}': {}", temporary.string(), error ? error.message() : std::strerror(errno));
}

namespace {

template <class T>
void take(std::ifstream& file, std::vector<T>& values, std::uint64_t count) {
  values.resize(count);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes_of(values).size()));
}

bool take_header(std::ifstream& file, PartHeader& header) {
  return file.read(reinterpret_cast<char*>(&header), sizeof(header)) && header.magic == kPartMagic;
}

}  // namespace

std::optional<EncodedPart> read_encoded_part(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  PartHeader header;
  if (!file || !take_header(file, header)) return std::nullopt;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  const std::uint64_t most = size / sizeof(EncodedDocument);  // so that the products below do not overflow
  if (error || header.documents > most || header.pieces > most || header.id_bytes > size || header.counted > size ||
      size != sizeof(header) + header.documents * sizeof(EncodedDocument) + header.pieces * sizeof(PieceFacts) + header.id_bytes +
                  header.counted)
    return std::nullopt;
  EncodedPart part{.tokens = header.tokens, .last = header.last != 0};
  take(file, part.documents, header.documents);
  take(file, part.pieces, header.pieces);
  take(file, part.ids, header.id_bytes);
  take(file, part.counted, header.counted);
  if (!file || header.crc32 != checksum(header, part)) return std::nullopt;
  return part;
}

EncodedPart read_encoded_documents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  PartHeader header;
  if (!file || !take_header(file, header)) fail(ExitCode::io, "cannot read '{}' again", path.string());
  EncodedPart part{.tokens = header.tokens, .last = header.last != 0};
  take(file, part.documents, header.documents);
  take(file, part.pieces, header.pieces);
  if (!file) fail(ExitCode::io, "cannot read '{}' again", path.string());
  return part;
}

}  // namespace cohort
