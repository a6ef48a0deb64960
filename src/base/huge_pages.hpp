// Pages of 2 MiB for what is read from end to end.
#pragma once

#include "base/units.hpp"

namespace cohort {

/// Asks the system to back [data, data + bytes), which nobody has written to yet, with huge pages: the whole ones within it, so
/// that it takes no more memory. A weight that is streamed then needs an address translated once where it took 512 of them. Only
/// a wish: where the system has no such pages, or grants none, nothing changes.
void prefer_huge_pages(void* data, Bytes bytes);

}  // namespace cohort
