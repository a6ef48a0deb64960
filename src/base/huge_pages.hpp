// Pages of 2 MiB for what is read from end to end.
#pragma once

#include "base/units.hpp"

namespace cohort {

/// Asks the system to back the memory [data, data + bytes) with huge pages where it first writes to it: what lies between two
/// boundaries of such pages, so that no memory is taken for it. A weight that is streamed from memory then misses 512 times less
/// often in the cache of addresses. Only a wish: where the system has none, or allows none, nothing changes.
void prefer_huge_pages(void* data, Bytes bytes);

}  // namespace cohort
