#include "data/foreign/megatron_index.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "data/texts/stored_bytes.hpp"

namespace cohort {
namespace {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr Bytes kMegatronHeader = 34;
constexpr Count kBlockEntries = 1 << 16;

StoredId stored_as(std::uint8_t code, const std::string& path) {
  switch (code) {
    case 1:
      return {1, false};
    case 3:
      return {2, true};
    case 4:
      return {4, true};
    case 5:
      return {8, true};
    case 8:
      return {2, false};
    default:
      fail(ExitCode::data, "{}: its ids have the type {}, which no ids have (byte 17 of the file)", path, int{code});
  }
}

// A list of numbers in the file, read block by block.
template <class Number>
class NumberList {
 public:
  NumberList(const StoredBytes& file, Bytes offset, Count size) : file_(file), offset_(offset), size_(size) {}
  Bytes place(Count i) const { return offset_ + i * static_cast<Bytes>(sizeof(Number)); }
  Number operator[](Count i) {
    if (i < first_ || i >= first_ + static_cast<Count>(block_.size())) {
      first_ = i;
      block_.resize(static_cast<std::size_t>(std::min(kBlockEntries, size_ - i)));
      const std::span<char> bytes(reinterpret_cast<char*>(block_.data()), block_.size() * sizeof(Number));
      if (file_.read_at(place(i), bytes) < bytes.size())
        fail(ExitCode::data, "{}: it became shorter while it was read", file_.path());
    }
    return block_[static_cast<std::size_t>(i - first_)];
  }

 private:
  const StoredBytes& file_;
  Bytes offset_;
  Count size_;
  Count first_ = 0;
  std::vector<Number> block_;
};

}  // namespace

MegatronIndex read_megatron_index(const std::string& path) {
  const StoredBytes file(path);
  std::array<char, kMegatronHeader> header{};
  if (file.read_at(0, header) < header.size() || !std::string_view(header.data(), header.size()).starts_with(kMegatronMagic))
    fail(ExitCode::data, "{}: it does not begin as an index of Megatron does (\"MMIDIDX\")", path);
  std::uint64_t version = 0;
  Count sequences = 0, entries = 0;
  std::memcpy(&version, header.data() + 9, 8);
  std::memcpy(&sequences, header.data() + 18, 8);
  std::memcpy(&entries, header.data() + 26, 8);
  if (version != 1) fail(ExitCode::data, "{}: version {} of Megatron's index; this program reads 1", path, version);
  const Bytes size = file.size();
  const Bytes most = size / 8;
  if (sequences < 0 || sequences > most || entries < 0 || entries > most ||
      size < kMegatronHeader + sequences * 12 + entries * 8) {
    fail(ExitCode::data, "{}: truncated: {} sequences and {} entries of documents do not fit into its {} bytes", path, sequences,
         entries, size);
  }
  MegatronIndex index{.stored = stored_as(static_cast<std::uint8_t>(header[17]), path)};
  NumberList<std::int32_t> lengths(file, kMegatronHeader, sequences);
  NumberList<std::int64_t> pointers(file, kMegatronHeader + sequences * 4, sequences);
  NumberList<std::int64_t> documents(file, kMegatronHeader + sequences * 12, entries);
  Count entry = 0;
  for (Count sequence = 0; sequence <= sequences; ++sequence) {
    for (; entry < entries && documents[entry] <= sequence; ++entry) {
      const bool ascends = documents[entry] == sequence;
      if (!ascends) {
        fail(ExitCode::data, "{}: document entry {}, at byte {} of the file, is sequence {}, behind {}", path, entry,
             documents.place(entry), documents[entry], sequence);
      }
      const auto start = static_cast<std::uint64_t>(index.tokens);
      if (sequence < sequences && (index.documents.empty() || index.documents.back() < start)) index.documents.push_back(start);
    }
    if (sequence == sequences) break;
    if (lengths[sequence] < 0 || pointers[sequence] != index.tokens * index.stored.bytes) {
      fail(ExitCode::data,
           "{}: sequence {} has {} tokens from byte {} of the data on (byte {} of the index), expected: from byte {} on", path,
           sequence, lengths[sequence], pointers[sequence], pointers.place(sequence), index.tokens * index.stored.bytes);
    }
    index.tokens += lengths[sequence];
  }
  if (entry < entries) {
    fail(ExitCode::data, "{}: document entry {}, at byte {} of the file, is sequence {}, but there are {}", path, entry,
         documents.place(entry), documents[entry], sequences);
  }
  if (!index.documents.empty() && index.documents.front() != 0) index.documents.insert(index.documents.begin(), 0);
  // Empty sequences at the end begin no document.
  while (!index.documents.empty() && index.documents.back() >= static_cast<std::uint64_t>(index.tokens))
    index.documents.pop_back();
  return index;
}

}  // namespace cohort
