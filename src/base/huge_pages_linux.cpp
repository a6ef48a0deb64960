#include <sys/mman.h>

#include <cstdint>

#include "base/huge_pages.hpp"

namespace cohort {

void prefer_huge_pages(void* data, Bytes bytes) {
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;  // of x86-64, and of ARM with base pages of 4 KiB
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (address + static_cast<std::uintptr_t>(bytes)) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace cohort
