#include <fcntl.h>

#include <cerrno>

#include "hdf5/reserve.hpp"

namespace cohort::hdf5 {

int reserve(int descriptor, off_t size, off_t more) {
  int reason = EINTR;
  while (reason == EINTR) reason = ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, size + more) == 0 ? 0 : errno;
  return reason == EOPNOTSUPP || reason == ENOSYS ? 0 : reason;
}

}  // namespace cohort::hdf5
