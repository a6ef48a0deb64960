// A file system that fails while ranks save: full, read-only for one, gone on one, locked. All ranks leave with the same error,
// the checkpoint before stays whole, the space is given back, and the next save, when it may be written again, is as if nothing
// had been.
#include <gtest/gtest.h>

#include <sys/file.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <unistd.h>
#include <csignal>

#include "checkpoint/damaged_form.hpp"

namespace cohort::test {
namespace {

constexpr uid_t kNobody = 65534;

/// A limit on the size of files acts like a full disk: write() fails in the middle. Only on `on`; taken back at the end.
class FullDisk {
 public:
  FullDisk(bool on, rlim_t bytes) : on_(on) {
    if (!on_) return;
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    if (on_) ::setrlimit(RLIMIT_FSIZE, &before_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  bool on_;
  rlimit before_{};
};

/// Without root's rights, on `on`.
class Nobody {
 public:
  explicit Nobody(bool on) : on_(on && ::seteuid(kNobody) == 0) {}
  ~Nobody() {
    if (on_ && ::seteuid(0) != 0) std::abort();
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  bool on_;
};

bool seen_by_nobody(const fs::path& folder) {
  const Nobody nobody(true);
  return ::faccessat(AT_FDCWD, folder.c_str(), R_OK | X_OK, AT_EACCESS) == 0;
}

class FailingDisk : public DamagedForm {
 protected:
  void expect_no_save(const std::vector<std::string>& parts, const std::function<void()>& attempt) {
    expect_refused(ExitCode::io, parts, attempt);
    comm_->barrier();
    if (root()) {
      const fs::directory_iterator begin(checkpoints_folder(run_));
      EXPECT_EQ(std::distance(begin, fs::directory_iterator()), 2) << "the space of the failed save is given back";
    }
    expect_former_untouched();
    expect_loads(2);
  }
  void expect_saves_again() {
    save(3);
    expect_loads(3);
    on_root([&] {
      EXPECT_NO_THROW(CheckpointReader(folder_of(3)).verify());
      fs::remove_all(folder_of(3));
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, FailingDisk, ::testing::Values(CheckpointForm::consolidated, CheckpointForm::per_rank),
                         form_name);

// On each rank that writes, alone: at once, in the middle of the elements, and when HDF5 flushes what it kept. Not for files that
// all ranks write together: the limit is for all files, and Open MPI hangs when its own, in its temporary folder, cannot be
// written.
TEST_P(FailingDisk, NoSpace) {
  for (int rank = 0; rank < (per_rank() ? comm_->size() : 1); ++rank) {
    for (const rlim_t bytes : {0, 1000, 5000}) {
      SCOPED_TRACE(fmt::format("rank {}, {} bytes", rank, bytes));
      expect_no_save({step_name(3)}, [&] {
        const FullDisk full(comm_->rank() == rank, bytes);
        save(3);
      });
    }
    expect_saves_again();
  }
}

TEST_P(FailingDisk, ARankWithoutTheRightToWriteOrToRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give up rights and take them back";
  if (!seen_by_nobody(run_)) GTEST_SKIP() << "the folder for temporary files ($TMPDIR) is for its owner alone";
  for (int rank = 0; rank < (per_rank() ? comm_->size() : 1); ++rank) {
    SCOPED_TRACE(rank);
    expect_no_save({run_.string(), "ermission denied"}, [&] {
      const Nobody nobody(comm_->rank() == rank);
      save(3);
    });
    expect_saves_again();
  }
  on_root([&] { fs::permissions(file_of_last(), fs::perms::owner_all); });
  expect_refused(ExitCode::io, {file_of_last().string(), "ermission denied"}, [&] {
    const Nobody nobody(comm_->rank() == last_rank());
    load_shards(*comm_, folder_of(2), shards(2, false, comm_->rank()), kModel);
  });
  comm_->barrier();
  expect_former_untouched();
}

TEST_P(FailingDisk, ARankThatDoesNotSeeTheFolder) {
  if (!per_rank() || comm_->size() == 1) GTEST_SKIP() << "who does not write needs no folder";
  expect_no_save({fmt::format("rank {}", last_rank()), "/nowhere", "cannot be created"}, [&] {
    const fs::path seen = comm_->rank() == last_rank() ? fs::path("/nowhere") : run_;
    save_shards(*comm_, seen, shards(3, true, comm_->rank()), make_state(3), options_);
  });
  expect_saves_again();
}

// Locks guard what is being written against other programs. Nobody can hold a lock on a save's files before they are there: they
// are new ones, in a folder of their own. So a lock on what a killed save left, or on a checkpoint that is replaced, is in
// nobody's way.
TEST_P(FailingDisk, LocksOfOthersAreInNobodysWay) {
  options_.storage.locking = true;
  const fs::path left = checkpoints_folder(run_) / temporary_name(2);
  int held[2] = {-1, -1};
  on_root([&] {
    fs::copy(folder_of(2), left);
    const fs::path paths[] = {left / kModelFile, folder_of(2) / kModelFile};
    for (int i = 0; i < 2; ++i) {
      held[i] = ::open(paths[i].c_str(), O_RDONLY | O_CLOEXEC);
      ASSERT_EQ(::flock(held[i], LOCK_EX | LOCK_NB), 0);
    }
  });
  save(2);
  expect_loads(2);
  expect_former_untouched();
  on_root([&] {
    for (const int file : held) ::close(file);
  });
}

}  // namespace
}  // namespace cohort::test
