#include "preflight/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "base/page_cache.hpp"
#include "observe/clock.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort::preflight {
namespace {

constexpr Bytes kBlock = 4 * kMiB;

// The scratch file: gone when this is.
class Scratch {
 public:
  explicit Scratch(std::string path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {}
  ~Scratch() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_;
};

// Moves blocks until `bytes` are done or the time is over; the bytes moved, or -1 if one failed. Between blocks the job's monitor
// is told that work is under way.
Bytes move_blocks(Bytes bytes, double seconds, const std::function<ssize_t(Bytes offset, Bytes block)>& move) {
  const double end = steady_seconds() + seconds;
  Bytes done = 0;
  while (done < bytes && (done == 0 || steady_seconds() < end)) {
    const ssize_t moved = move(done, std::min(kBlock, bytes - done));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return -1;
    if (moved == 0) break;
    done += moved;
    FlightRecorder::of_process().beat();
  }
  return done;
}

double rate(Bytes bytes, double since) { return static_cast<double>(bytes) / (steady_seconds() - since); }

}  // namespace

Disk measure_disk(const std::string& folder, const std::string& name, Bytes bytes, double seconds) {
  Disk disk;
  disk.folder = folder;
  const auto failed = [&](const char* what) {
    disk.problem = fmt::format("cannot {} a scratch file in '{}': {}", what, folder, std::strerror(errno));
    return disk;
  };
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) == 0) disk.free = static_cast<Bytes>(space.f_bavail) * static_cast<Bytes>(space.f_frsize);
  const Scratch file(folder + "/" + name);
  if (file.descriptor() < 0) return failed("create");
  // Not zeros: disks that compress would be done with them in no time.
  std::vector<unsigned char> block(static_cast<std::size_t>(kBlock));
  unsigned state = 1;
  for (unsigned char& byte : block) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);

  double begin = steady_seconds();
  const Bytes written = move_blocks(bytes, seconds, [&](Bytes offset, Bytes size) {
    return ::pwrite(file.descriptor(), block.data(), static_cast<std::size_t>(size), offset);
  });
  if (written < 0 || ::fsync(file.descriptor()) != 0) return failed("write");
  disk.write = rate(written, begin);

  forget_cached(file.descriptor());  // what lies in memory would be read at its speed
  begin = steady_seconds();
  const Bytes read = move_blocks(written, seconds, [&](Bytes offset, Bytes size) {
    return ::pread(file.descriptor(), block.data(), static_cast<std::size_t>(size), offset);
  });
  if (read <= 0) return failed("read");
  disk.read = rate(read, begin);
  return disk;
}

}  // namespace cohort::preflight
