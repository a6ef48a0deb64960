#include <sys/socket.h>

#include "watch/send_quietly.hpp"

namespace cohort {

ssize_t send_quietly(int descriptor, const char* bytes, std::size_t count) {
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);  // older systems have no such flag of send
  return ::send(descriptor, bytes, count, 0);
}

}  // namespace cohort
