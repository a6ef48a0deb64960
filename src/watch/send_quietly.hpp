// Sending to a connection whose other end may be gone.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cohort {

/// As send(2) without flags, but a closed connection is an error (EPIPE) and no signal.
ssize_t send_quietly(int descriptor, const char* bytes, std::size_t count);

}  // namespace cohort
