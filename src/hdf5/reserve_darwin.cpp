#include <fcntl.h>

#include <cerrno>

#include "hdf5/reserve.hpp"

namespace cohort::hdf5 {

int reserve(int descriptor, off_t, off_t more) {
  fstore_t wanted{F_ALLOCATEALL, F_PEOFPOSMODE, 0, more, 0};
  if (::fcntl(descriptor, F_PREALLOCATE, &wanted) == 0 || errno == ENOTSUP || errno == EINVAL) return 0;
  return errno;
}

}  // namespace cohort::hdf5
