#include <sys/socket.h>

#include "watch/send_quietly.hpp"

namespace cohort {

ssize_t send_quietly(int descriptor, const char* bytes, std::size_t count) {
  return ::send(descriptor, bytes, count, MSG_NOSIGNAL);
}

}  // namespace cohort
