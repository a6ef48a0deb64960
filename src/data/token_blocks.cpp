#include "data/token_blocks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

TokenBlocks::TokenBlocks(TokenExtent extent) : extent_(std::move(extent)), checked_(extent_.crc32.size()), state_(look()) {}

TokenBlocks::FileState TokenBlocks::look() const {
  struct stat state {};
  if (fstat(extent_.descriptor, &state) != 0)
    fail(ExitCode::io, "{}: cannot read file status: {}", extent_.name, std::strerror(errno));
  return {state.st_size, std::int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec};
}

Count TokenBlocks::end_of(Count block) const {
  return block + 1 == blocks() ? extent_.tokens : first_of(block + 1);  // first_of of one more could exceed 64 bits
}

std::string TokenBlocks::place(Count begin, Count end) const {
  return fmt::format("{}: tokens {} to {}, bytes {} to {} of the file", extent_.name, begin, end,
                     extent_.offset + begin * extent_.token_bytes, extent_.offset + end * extent_.token_bytes);
}

void TokenBlocks::pread_tokens(Count begin, Count count, std::uint8_t* to) const {
  const Bytes bytes = count * extent_.token_bytes, offset = extent_.offset + begin * extent_.token_bytes;
  for (Bytes done = 0; done < bytes;) {
    const ssize_t got = pread(extent_.descriptor, to + done, static_cast<std::size_t>(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ExitCode::io, "{}: cannot be read: {}", place(begin, begin + count), std::strerror(errno));
    if (got == 0) {
      fail(ExitCode::data,
           "{}: the file ends at byte {}: it was truncated or overwritten while open, or only partly copied; copy it again, or "
           "prepare the text again",
           place(begin, begin + count), look().size);
    }
    done += got;
  }
}

void TokenBlocks::check_block(Count block, const Visit& visit) {
  std::uint32_t crc = 0;
  for (Count begin = first_of(block), end = end_of(block); begin < end;) {
    const Count count = std::min(kPiece / extent_.token_bytes, end - begin);
    piece_.resize(static_cast<std::size_t>(count * extent_.token_bytes));
    pread_tokens(begin, count, piece_.data());
    crc = extend_crc32(crc, piece_.data(), piece_.size());
    visit(begin, piece_);
    FlightRecorder::of_process().beat();  // a block of version 1 is a whole split
    begin += count;
  }
  const std::uint32_t stored = extent_.crc32[static_cast<std::size_t>(block)];
  if (crc != stored) {
    fail(ExitCode::data,
         "{}: checksum mismatch ({:08x} computed, {:08x} stored): the file is damaged, or was overwritten while open; copy it "
         "again, or prepare the text again",
         place(first_of(block), end_of(block)), crc, stored);
  }
  checked_[static_cast<std::size_t>(block)] = true;
}

void TokenBlocks::read_once(Count begin, Count count, std::uint8_t* to) {
  const auto width = static_cast<std::size_t>(extent_.token_bytes);
  for (const Count end = begin + count; begin < end;) {
    const Count block = begin / extent_.block_tokens;
    const Count next = std::min(end, end_of(block));
    if (checked_[static_cast<std::size_t>(block)]) {
      pread_tokens(begin, next - begin, to);
    } else {
      // What was compared is what is used: the bytes are not read a second time.
      check_block(block, [&](Count first, std::span<const std::uint8_t> bytes) {
        const Count from = std::max(begin, first), till = std::min(next, first + static_cast<Count>(bytes.size() / width));
        if (from >= till) return;
        std::memcpy(to + static_cast<std::size_t>(from - begin) * width,
                    bytes.data() + static_cast<std::size_t>(from - first) * width, static_cast<std::size_t>(till - from) * width);
      });
    }
    to += static_cast<std::size_t>(next - begin) * width;
    begin = next;
  }
}

bool TokenBlocks::was_written() {
  const FileState before = std::exchange(state_, look());
  return state_ != before;
}

void TokenBlocks::read(Count begin, Count count, std::uint8_t* to) {
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    read_once(begin, count, to);
    if (!was_written()) return;
    std::fill(checked_.begin(), checked_.end(), false);  // and what was read may be half old, half new
  }
  fail(ExitCode::data, "{}: the file is being written to; a run needs a file that does not change", place(begin, begin + count));
}

void TokenBlocks::verify(const Visit& visit) {
  for (Count block = 0; block < blocks(); ++block) check_block(block, visit);
}

bool TokenBlocks::verify_within(Bytes& budget) {
  for (Count block = 0; block < blocks(); ++block) {
    if (checked_[static_cast<std::size_t>(block)]) continue;
    const Bytes size = (end_of(block) - first_of(block)) * extent_.token_bytes;
    if (size > budget) return false;
    check_block(block, [](Count, std::span<const std::uint8_t>) {});
    budget -= size;
  }
  return true;
}

}  // namespace cohort
