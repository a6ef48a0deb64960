#include <fcntl.h>

#include "base/page_cache.hpp"

namespace cohort {

void forget_cached(int descriptor) { ::fcntl(descriptor, F_NOCACHE, 1); }

}  // namespace cohort
