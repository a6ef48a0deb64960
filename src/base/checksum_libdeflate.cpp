#include <libdeflate.h>

#include "base/checksum.hpp"

namespace cohort {

std::uint32_t extend_crc32(std::uint32_t crc, const void* data, std::size_t bytes) {
  return bytes == 0 ? crc : ::libdeflate_crc32(crc, data, bytes);  // of no address it would return 0
}

}  // namespace cohort
