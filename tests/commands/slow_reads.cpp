// Loaded before a program (LD_PRELOAD), makes its large reads from files slow, as a loaded file server does: SLOW_READS seconds
// for each 16 KiB. Reads of less, of headers and samples, take no longer than usual.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace {

using Read = ssize_t (*)(int, void*, size_t, off_t);

ssize_t slow(const char* name, int file, void* to, size_t bytes, off_t offset) {
  const char* seconds = std::getenv("SLOW_READS");
  const size_t blocks = bytes / 16384;
  if (seconds != nullptr) usleep(static_cast<useconds_t>(1e6 * std::strtod(seconds, nullptr) * static_cast<double>(blocks)));
  return reinterpret_cast<Read>(dlsym(RTLD_NEXT, name))(file, to, bytes, offset);
}

}  // namespace

extern "C" ssize_t pread(int file, void* to, size_t bytes, off_t offset) { return slow("pread", file, to, bytes, offset); }
extern "C" ssize_t pread64(int file, void* to, size_t bytes, off_t offset) { return slow("pread64", file, to, bytes, offset); }
