// A file of fixed size for numbers that a process keeps outside of its memory, read and written in the background while the
// process computes (the asynchronous I/O of ZeRO-Infinity, Rajbhandari et al. 2021, section 6.3). It is scratch: removed with the
// object, and of no use to another process.
//
// One thread reads and one writes, each with plain pread and pwrite: a disk can do both at once, and of large blocks one after
// the other in each direction is enough to keep it busy. O_DIRECT is left out on purpose: it wants aligned addresses and sizes,
// not every file system has it (tmpfs), and the page cache that it goes round makes a small state as fast as memory.
#pragma once

#include <filesystem>
#include <future>
#include <memory>

#include "base/units.hpp"

namespace cohort {

class ScratchFile {
 public:
  /// Creates `path`, and its folder if there is none, with `bytes` zero bytes that the file system has set aside: a disk that is
  /// too small shows here, before work starts. What a killed process left under this name is overwritten; a file that another
  /// ScratchFile has open is refused (where the file system knows locks). Throws Error(io). In a thread that counts
  /// (base/counting.hpp) there is no file, and transfers are done at once.
  ScratchFile(std::filesystem::path path, Bytes bytes);
  /// Waits for what is under way and removes the file.
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// A read or write on its way; its memory belongs to the file until wait() returns. Move-only. Without wait() the destructor
  /// waits and swallows the error: for the way out of a failure.
  class Transfer {
   public:
    Transfer() = default;  // nothing is on its way
    explicit Transfer(std::future<void> done) : done_(std::move(done)) {}
    Transfer(Transfer&&) noexcept = default;
    Transfer& operator=(Transfer&& other) noexcept;
    ~Transfer() { settle(); }
    /// Throws Error(io), naming file, offset and bytes, if the transfer failed or the file ended early. Afterwards, or if nothing
    /// is on its way, returns at once.
    void wait();

   private:
    void settle() noexcept;
    std::future<void> done_;
  };

  /// Bytes [offset, offset + bytes) of the file to or from memory. Reads are done in the order in which they were asked for, and
  /// so are writes, but neither waits for the other: who reads what was written waits for the write first.
  Transfer read(Bytes offset, void* to, Bytes bytes);
  Transfer write(Bytes offset, const void* from, Bytes bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  class Worker;
  explicit ScratchFile(std::filesystem::path path);  // opened and locked
  void reserve(Bytes bytes);
  void check_range(Bytes offset, Bytes bytes) const;
  void transfer_all(bool reads, Bytes offset, std::byte* memory, Bytes bytes) const;

  std::filesystem::path path_;
  Bytes bytes_ = 0;
  int descriptor_ = -1;
  std::unique_ptr<Worker> reader_, writer_;
};

}  // namespace cohort
