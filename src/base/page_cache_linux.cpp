#include <fcntl.h>

#include "base/page_cache.hpp"

namespace cohort {

void forget_cached(int descriptor) { ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED); }

}  // namespace cohort
