// Makes the checksums of a damaged HDF5 file right again where a reader meets them first, as an attacker would: those of the
// superblock and of the object headers. (HDF5 File Format Specification 3.0, II.A and IV.A.1.b.) Without it HDF5 refuses nearly
// all damage at once, and what lies behind is never tried.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace cohort::fuzz {

/// The hash by which HDF5 sums up its metadata: Bob Jenkins, "lookup3" (2006), of bytes, with the initial value 0.
inline std::uint32_t metadata_checksum(const char* data, std::size_t size) {
  const auto rotate = [](std::uint32_t x, int k) { return (x << k) | (x >> (32 - k)); };
  std::uint32_t a = 0xDEADBEEFu + static_cast<std::uint32_t>(size);
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add_block = [&](std::size_t bytes) {
    std::uint32_t words[3] = {};
    std::memcpy(words, data, bytes);
    a += words[0], b += words[1], c += words[2];
  };
  for (; size > 12; size -= 12, data += 12) {
    add_block(12);
    a = (a - c) ^ rotate(c, 4), c += b;
    b = (b - a) ^ rotate(a, 6), a += c;
    c = (c - b) ^ rotate(b, 8), b += a;
    a = (a - c) ^ rotate(c, 16), c += b;
    b = (b - a) ^ rotate(a, 19), a += c;
    c = (c - b) ^ rotate(b, 4), b += a;
  }
  if (size == 0) return c;
  add_block(size);
  c = (c ^ b) - rotate(b, 14);
  a = (a ^ c) - rotate(c, 11);
  b = (b ^ a) - rotate(a, 25);
  c = (c ^ b) - rotate(b, 16);
  a = (a ^ c) - rotate(c, 4);
  b = (b ^ a) - rotate(a, 14);
  return (c ^ b) - rotate(b, 24);
}

/// Sums up bytes [begin, end) of the file and puts the sum behind them, if it fits.
inline void seal_bytes(std::string& file, std::size_t begin, std::size_t end) {
  if (end < begin || end + 4 > file.size()) return;
  const std::uint32_t sum = metadata_checksum(file.data() + begin, end - begin);
  std::memcpy(file.data() + end, &sum, 4);
}

inline void repair_hdf5_checksums(std::string& file) {
  constexpr std::size_t kSuperblock = 44;  // version 2 with 8-byte offsets, before its checksum
  seal_bytes(file, 0, kSuperblock);
  for (std::size_t at = file.find("OHDR"); at != std::string::npos; at = file.find("OHDR", at + 4)) {
    if (at + 6 > file.size()) return;
    const auto flags = static_cast<unsigned char>(file[at + 5]);
    std::size_t header = at + 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);  // times; attribute storage
    const std::size_t width = std::size_t{1} << (flags & 3);
    std::uint64_t size = 0;  // of the messages
    if (header + width > file.size()) return;
    std::memcpy(&size, file.data() + header, width);
    header += width;
    if (size <= file.size() - header) seal_bytes(file, at, header + static_cast<std::size_t>(size));
  }
}

}  // namespace cohort::fuzz
