#include "base/huge_pages.hpp"

namespace cohort {

void prefer_huge_pages(void*, Bytes) {}  // macOS chooses by itself

}  // namespace cohort
