// While one lives, its thread counts (base/counting.hpp).
#pragma once

#include <cstddef>
#include <memory>

#include "base/units.hpp"

namespace cohort {

class CountingScope {
 public:
  /// The thread does not count yet. Its account of memory (memory_account.hpp) is another one, empty, until the scope ends.
  CountingScope();
  ~CountingScope();
  CountingScope(const CountingScope&) = delete;
  CountingScope& operator=(const CountingScope&) = delete;
};

/// Tensors of up to so many bytes have memory, all zeros, also while the thread counts: the few numbers of a step that the host
/// itself reads and writes, such as what the optimizer decides or which ranges decay.
inline constexpr Bytes kSmallWhileCounting = kMiB;

/// For who makes tensors while the thread counts: memory of zeros if that is small, else an address of its own which belongs to
/// no memory.
std::shared_ptr<std::byte> counted_memory(Bytes bytes);

}  // namespace cohort
