// The lock of a run folder: one owner at a time, whatever became of the one before. And RUN/stop and RUN/save.
#include "train/lock_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "train/requests.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;
using test::text_of;
namespace fs = std::filesystem;

class RunFolder : public ::testing::Test {
 protected:
  // Runs `work` in another process and returns its exit code, or minus the signal that ended it.
  static int in_child(const std::function<int()>& work) { return ended(start(work)); }
  static pid_t start(const std::function<int()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 99;
      try {
        code = work();
      } catch (const Error& error) {
        code = static_cast<int>(error.code());
      } catch (...) {
      }
      _exit(code);
    }
    return child;
  }
  static int ended(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Leaves the lock of a process that was killed, changed by `change`, as old as `age` seconds.
  void leave_lock(const std::function<void(Json&)>& change, int age = 0) {
    fs::remove(path_);
    ASSERT_EQ(in_child([&]() -> int {
                const LockFile lock(path_, {"77", 1});
                raise(SIGKILL);
                return 0;
              }),
              -SIGKILL);
    Json owner = Json::parse(text_of(path_));
    change(owner);
    std::ofstream(path_) << owner;
    const std::time_t then = std::time(nullptr) - age;
    const timespec times[2] = {{then, 0}, {then, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}));
  }

  test::TemporaryFolder folder_;
  fs::path path_ = folder_ / "lock";
};

using Lock = RunFolder;

TEST_F(Lock, IsHeldAndGivenBack) {
  {
    const LockFile lock(path_, {"12", 0});
    EXPECT_EQ(lock.dead_owner(), "");
    EXPECT_TRUE(lock.touch());
    const Json owner = Json::parse(text_of(path_));
    EXPECT_EQ(owner.at("process"), getpid());
    EXPECT_EQ(owner.at("slurm_job"), "12");
    EXPECT_EQ(files(), 1u);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(Lock, OfALivingProcessIsRefused) {
  const LockFile lock(path_, {"12", 0});
  const std::string process = fmt::format("SLURM job 12, process {} on ", getpid());
  EXPECT_ERROR(LockFile(path_, {"13", 0}), ExitCode::launch, folder_.path().c_str(), process.c_str(), "since 2", "sign of life",
               "/stop`", "run.name");
  EXPECT_TRUE(lock.touch());
  EXPECT_EQ(files(), 1u) << "a refused one leaves nothing behind";
}

TEST_F(Lock, OfADyingProcessIsWaitedFor) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = start([&] {
    const LockFile lock(path_, {});
    EXPECT_EQ(write(ready[1], "x", 1), 1);
    usleep(500000);
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NO_THROW(LockFile(path_, {}));
  EXPECT_EQ(ended(owner), 0);
}

TEST_F(Lock, OfAKilledProcessIsTakenOverAtOnce) {
  leave_lock([](Json&) {});
  const LockFile lock(path_, {});
  EXPECT_NE(lock.dead_owner().find("SLURM job 77, process "), std::string::npos) << lock.dead_owner();
  EXPECT_TRUE(lock.touch());
  EXPECT_EQ(files(), 1u);
}

TEST_F(Lock, OfAProcessNumberThatIsUsedAgainIsTakenOver) {
  leave_lock([](Json& owner) { owner["process"] = getpid(); });
  EXPECT_NO_THROW(LockFile(path_, {}));
}

TEST_F(Lock, OfAnotherMachineCountsForAMinute) {
  const auto far_away = [](Json& owner) {
    owner["machine"] = "another";
    owner["host"] = "node7";
  };
  leave_lock(far_away, 50);
  EXPECT_ERROR(LockFile(path_, {"78", 0}), ExitCode::launch, "on node7", "last sign of life was 5", "counts as abandoned");
  // The same job at its next start knows better; the same start of it does not.
  EXPECT_ERROR(LockFile(path_, {"77", 1}), ExitCode::launch, "on node7");
  EXPECT_NO_THROW(LockFile(path_, {"77", 2}));
  leave_lock(far_away, 70);
  EXPECT_NO_THROW(LockFile(path_, {"78", 0}));
}

TEST_F(Lock, ThatNobodyCanReadCountsForAMinute) {
  leave_lock([](Json& owner) { owner = "no owner"; }, 50);
  EXPECT_ERROR(LockFile(path_, {}), ExitCode::launch, "an unknown host");
  leave_lock([](Json& owner) { owner = "no owner"; }, 70);
  EXPECT_NO_THROW(LockFile(path_, {}));
}

TEST_F(Lock, SaysWhenItIsLost) {
  const LockFile lock(path_, {});
  const std::string own = text_of(path_);
  std::ofstream(path_) << "another's";
  EXPECT_FALSE(lock.touch());
  fs::remove(path_);
  EXPECT_FALSE(lock.touch());
  std::ofstream(path_) << own;
  EXPECT_TRUE(lock.touch());
}

TEST_F(Lock, ALostOneIsNotGivenBack) {
  {
    const LockFile lock(path_, {});
    std::ofstream(path_) << "another's";
  }
  EXPECT_EQ(text_of(path_), "another's");
}

// Several processes want the lock of a dead one at the same moment, again and again. Each owner makes a file that only one can
// make, and keeps the lock until all have tried.
TEST_F(Lock, ExactlyOneWins) {
  constexpr int kProcesses = 3, kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    if (round % 2 == 0) leave_lock([](Json&) {});
    int gate[2], end[2];
    ASSERT_TRUE(pipe(gate) == 0 && pipe(end) == 0);
    const fs::path owned = folder_ / "owned";
    const auto contend = [&] {
      char byte = 0;
      close(gate[1]);
      close(end[1]);
      if (read(gate[0], &byte, 1) != 0) return 98;  // waits until the parent closes its end
      const LockFile lock(path_, {});
      const int descriptor = open(owned.c_str(), O_CREAT | O_EXCL, 0600);
      if (descriptor < 0) return 97;
      if (read(end[0], &byte, 1) != 0) return 96;
      unlink(owned.c_str());
      return 0;
    };
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) children.push_back(start(contend));
    close(gate[0]);
    close(end[0]);
    close(gate[1]);
    if (round == 0) {  // the others are refused while the first has it, which takes them some seconds
      std::vector<int> codes;
      for (int left = kProcesses - 1; left > 0; --left) {
        int status = 0;
        wait(&status);
        codes.push_back(WEXITSTATUS(status));
      }
      EXPECT_EQ(codes, std::vector<int>(kProcesses - 1, static_cast<int>(ExitCode::launch)));
      close(end[1]);
      int status = 0;
      wait(&status);
      EXPECT_EQ(WEXITSTATUS(status), 0);
    } else {  // one after the other has it
      close(end[1]);
      for (const pid_t child : children) EXPECT_EQ(ended(child), 0) << "round " << round;
    }
    EXPECT_EQ(files(), 0u);
  }
}

// --- RUN/stop and RUN/save ---

double now = 0.0;
double test_clock() { return now; }

using Asked = std::array<std::int64_t, kRunRequests>;

TEST_F(RunFolder, IsLookedAtOnceASecondByRank0) {
  Requests root(folder_.path(), 0, test_clock), other(folder_.path(), 1, test_clock);
  EXPECT_EQ(root.poll(), (Asked{0, 0, 0}));
  std::ofstream(folder_ / "stop") << "";
  std::ofstream(folder_ / "save") << "";
  now += 0.9;
  EXPECT_EQ(root.poll(), (Asked{0, 0, 0}));
  now += 0.2;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 1}));
  EXPECT_EQ(other.poll(), (Asked{0, 0, 0}));
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 0})) << "a save counts once";
  EXPECT_TRUE(root.save_done());
  EXPECT_FALSE(fs::exists(folder_ / "save"));
  EXPECT_TRUE(fs::exists(folder_ / "stop"));
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 0}));
  std::ofstream(folder_ / "save") << "";
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 1})) << "and again when it is asked for again";
}

}  // namespace
}  // namespace cohort
