// CRC-32C (Castagnoli), which frames the records of event files: another polynomial than that of zlib (base/checksum.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cohort {

inline constexpr std::array<std::uint32_t, 256> kCrc32cTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}();

constexpr std::uint32_t crc32c_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrc32cTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xffu];
  return ~crc;
}

/// As records hold it: turned by 15 bits and shifted, so that the checksum of data that holds checksums is no special case.
constexpr std::uint32_t masked_crc32c_of(std::string_view bytes) {
  const std::uint32_t crc = crc32c_of(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace cohort
