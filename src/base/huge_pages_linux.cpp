#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "base/huge_pages.hpp"

namespace cohort {

void prefer_huge_pages(void* data, Bytes bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;  // of x86-64, and of ARM with base pages of 4 KiB
  const std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(data) % kPage) % kPage,
                    size = static_cast<std::size_t>(bytes);
  if (size < before + kPage) return;
  ::madvise(static_cast<std::byte*>(data) + before, (size - before) / kPage * kPage, MADV_HUGEPAGE);
}

}  // namespace cohort
