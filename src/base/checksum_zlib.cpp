#include <zlib.h>

#include "base/checksum.hpp"

namespace cohort {

std::uint32_t extend_crc32(std::uint32_t crc, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(::crc32_z(crc, static_cast<const Bytef*>(data), bytes));
}

}  // namespace cohort
