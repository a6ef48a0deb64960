#include "base/scratch_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/counting.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

/// A thread that runs tasks in the order in which they come.
class ScratchFile::Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  /// What was asked for is done first.
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  template <class Task>
  Transfer start(Task task) {
    std::packaged_task<void()> packaged(std::move(task));
    Transfer transfer(packaged.get_future());
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(packaged));
    }
    changed_.notify_one();
    return transfer;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::packaged_task<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

ScratchFile::Transfer& ScratchFile::Transfer::operator=(Transfer&& other) noexcept {
  settle();
  done_ = std::move(other.done_);
  return *this;
}

void ScratchFile::Transfer::wait() {
  if (done_.valid()) done_.get();
}

void ScratchFile::Transfer::settle() noexcept {
  if (done_.valid()) done_.wait();
}

ScratchFile::ScratchFile(std::filesystem::path path) : path_(std::move(path)) {
  if (counting()) return;
  if (path_.has_parent_path()) make_folders(path_.parent_path());
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    const int error = errno;
    fail(ExitCode::io, "cannot create the scratch file '{}': {}{}", path_.string(), reason_of(error),
         error == EACCES || error == EROFS ? "; choose a folder that the user running the job can write to" : "");
  }
  // File systems without locks answer otherwise; there the names alone keep processes apart.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    fail(ExitCode::io, "the scratch file '{}' is in use by another process: give this run another name or folder",
         path_.string());
  }
}

ScratchFile::ScratchFile(std::filesystem::path path, Bytes bytes) : ScratchFile(std::move(path)) {
  if (descriptor_ < 0) return;
  reserve(bytes);
  reader_ = std::make_unique<Worker>();
  writer_ = std::make_unique<Worker>();
}

ScratchFile::~ScratchFile() {
  if (descriptor_ < 0) return;
  reader_.reset();
  writer_.reset();
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

void ScratchFile::reserve(Bytes bytes) {
  bytes_ = bytes;
  int error = ::ftruncate(descriptor_, 0) == 0 ? 0 : errno;  // drops what was left there
  if (error == 0 && bytes > 0) error = ::posix_fallocate(descriptor_, 0, bytes);
  if (error == 0) return;
  std::error_code ignored;
  const std::filesystem::space_info space = std::filesystem::space(path_, ignored);
  fail(ExitCode::io, "cannot reserve {} for the scratch file '{}': {} ({} free there); choose a folder on a larger disk",
       human_bytes(bytes), path_.string(), reason_of(error), human_bytes(static_cast<Bytes>(space.available)));
}

ScratchFile::Transfer ScratchFile::read(Bytes offset, void* to, Bytes bytes) {
  if (descriptor_ < 0) return {};
  check_range(offset, bytes);
  return reader_->start([=, this] { transfer_all(true, offset, static_cast<std::byte*>(to), bytes); });
}

ScratchFile::Transfer ScratchFile::write(Bytes offset, const void* from, Bytes bytes) {
  if (descriptor_ < 0) return {};
  check_range(offset, bytes);
  // One loop serves both directions; pwrite does not change what it is given.
  auto* memory = static_cast<std::byte*>(const_cast<void*>(from));
  return writer_->start([=, this] { transfer_all(false, offset, memory, bytes); });
}

void ScratchFile::check_range(Bytes offset, Bytes bytes) const {
  COHORT_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= bytes_, "{} bytes at {} of '{}', which has {}", bytes, offset,
               path_.string(), bytes_);
}

void ScratchFile::transfer_all(bool reads, Bytes offset, std::byte* memory, Bytes bytes) const {
  const auto fail_at = [&](Bytes done, const std::string& why) {
    fail(ExitCode::io, "cannot {} {} bytes at offset {} of the scratch file '{}': {}", reads ? "read" : "write", bytes - done,
         offset + done, path_.string(), why);
  };
  for (Bytes done = 0; done < bytes;) {
    const auto size = static_cast<std::size_t>(bytes - done);
    const ssize_t count = reads ? ::pread(descriptor_, memory + done, size, offset + done)
                                : ::pwrite(descriptor_, memory + done, size, offset + done);
    if (count == 0) fail_at(done, "the file ends there: something else truncated it");
    if (count < 0 && errno != EINTR) fail_at(done, reason_of(errno));
    if (count > 0) done += count;
  }
}

}  // namespace cohort
