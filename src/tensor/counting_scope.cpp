#include "tensor/counting_scope.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "tensor/memory_account.hpp"

namespace cohort {
namespace {

// Neither x86-64 nor ARM has user memory here, whatever the system: a read is caught in the act.
constexpr std::uintptr_t kFirstAddress = 0x00F0'0000'0000'0000;
constexpr std::uintptr_t kAddressStep = 256;

thread_local std::uintptr_t next_address = kFirstAddress;

// From here on the system gives pages, which are zero and cost nothing until they are touched, as hardly any is.
constexpr Bytes kPagesFrom = 64 * kKiB;

std::shared_ptr<std::byte> pages(Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [size](std::byte* given) { munmap(given, size); }};
}

}  // namespace

CountingScope::CountingScope() {
  COHORT_CHECK(!counting(), "a thread that counts was to count");
  detail::counting_thread = true;
  next_address = kFirstAddress;
  forget_counted_memory();
}

CountingScope::~CountingScope() { detail::counting_thread = false; }

std::shared_ptr<std::byte> counted_memory(Bytes bytes) {
  if (bytes <= kSmallWhileCounting && bytes >= kPagesFrom) return pages(bytes);
  if (bytes <= kSmallWhileCounting) {
    void* const memory = std::calloc(static_cast<std::size_t>(bytes), 1);
    if (memory == nullptr) throw std::bad_alloc();
    return {static_cast<std::byte*>(memory), std::free};
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of no memory, which nobody follows
  auto* const address = reinterpret_cast<std::byte*>(next_address);
  next_address += (static_cast<std::uintptr_t>(bytes) + kAddressStep - 1) / kAddressStep * kAddressStep;
  return {address, [](std::byte*) {}};
}

}  // namespace cohort
