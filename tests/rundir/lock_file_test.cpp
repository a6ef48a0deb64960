// The lock of a run folder: one owner at a time, whatever became of the one before.
#include "rundir/lock_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "comm/self_communicator.hpp"
#include "observe/clock.hpp"
#include "rundir/run_lock.hpp"
#include "runtime/signals.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;
using test::text_of;
namespace fs = std::filesystem;

class Lock : public ::testing::Test {
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

  // Leaves the lock of a process that was killed, changed by `change`.
  void leave_lock(const std::function<void(Json&)>& change) {
    fs::remove(path_);
    ASSERT_EQ(in_child([&]() -> int {
                const LockFile lock(path_, {"77", 1}, options_);
                raise(SIGKILL);
                return 0;
              }),
              -SIGKILL);
    Json owner = Json::parse(text_of(path_));
    change(owner);
    std::ofstream(path_) << owner;
  }
  static void far_away(Json& owner) {
    owner["machine"] = "another";
    owner["host"] = "node7";
  }

  // A process that touches the lock as its owner would, for some seconds. Each touch says a minute of 1970: no clock of any
  // machine may matter.
  pid_t start_heartbeat() const {
    return start([&] {
      constexpr std::time_t kBeats = 100;
      for (std::time_t then = 60; then <= 60 * kBeats; then += 60) {
        const timespec times[2] = {{then, 0}, {then, 0}};
        utimensat(AT_FDCWD, path_.c_str(), times, 0);
        sleep_for(options_.heartbeat);
      }
      return 0;
    });
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    ended(child);
  }

  static void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
  double seconds_to_take(const JobStart& job = {}) {
    const double begin = steady_seconds();
    const LockFile lock(path_, job, options_);
    EXPECT_TRUE(lock.touch());
    dead_owner_ = lock.dead_owner();
    return steady_seconds() - begin;
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}));
  }

  test::TemporaryFolder folder_;
  fs::path path_ = folder_ / "lock";
  std::vector<std::string> said_;
  std::string dead_owner_;
  LockOptions options_{.heartbeat = 0.1,
                       .abandoned = 0.6,
                       .say = [this](const std::string& text) { said_.push_back(text); },
                       .way_out = "take another"};
};

TEST_F(Lock, IsHeldAndGivenBack) {
  {
    const LockFile lock(path_, {"12", 0}, options_);
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
  const LockFile lock(path_, {"12", 0}, options_);
  const std::string process = fmt::format("SLURM job 12, process {} on ", getpid());
  EXPECT_ERROR(LockFile(path_, {"13", 0}, options_), ExitCode::launch, folder_.path().c_str(), process.c_str(), "since 2",
               "its process is alive", "take another");
  // A later start of the job does not overrule what can be seen.
  EXPECT_ERROR(LockFile(path_, {"12", 1}, options_), ExitCode::launch, process.c_str());
  EXPECT_TRUE(said_.empty());
  EXPECT_TRUE(lock.touch());
  EXPECT_EQ(files(), 1u) << "a refused one leaves nothing behind";
}

TEST_F(Lock, OfADyingProcessIsWaitedFor) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = start([&] {
    const LockFile lock(path_, {}, options_);
    EXPECT_EQ(write(ready[1], "x", 1), 1);
    usleep(500000);
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NO_THROW(LockFile(path_, {}, options_));
  EXPECT_EQ(ended(owner), 0);
}

TEST_F(Lock, OfAKilledProcessIsTakenOverAtOnce) {
  leave_lock([](Json&) {});
  const LockFile lock(path_, {}, options_);
  EXPECT_NE(lock.dead_owner().find("SLURM job 77, process "), std::string::npos) << lock.dead_owner();
  EXPECT_TRUE(lock.touch());
  EXPECT_EQ(files(), 1u);
}

TEST_F(Lock, OfAProcessNumberThatIsUsedAgainIsTakenOver) {
  leave_lock([](Json& owner) { owner["process"] = getpid(); });
  EXPECT_NO_THROW(LockFile(path_, {}, options_));
}

// The seconds below are those of options_, and bounds with room for a busy machine.
TEST_F(Lock, OfAnotherMachineIsTakenWhenItHasShownNoLifeForLong) {
  leave_lock(far_away);
  const double took = seconds_to_take({"78", 0});
  EXPECT_GE(took, options_.abandoned);
  EXPECT_LT(took, 10.0);
  EXPECT_NE(dead_owner_.find("on node7"), std::string::npos) << dead_owner_;
  ASSERT_EQ(said_.size(), 1u) << "it says once that it waits";
  for (const char* part : {"SLURM job 77, process ", "on node7", "within 0.2 s", "after 0.6 s"}) {
    EXPECT_NE(said_[0].find(part), std::string::npos) << said_[0];
  }
}

TEST_F(Lock, OfAnotherMachineThatShowsLifeIsRefused) {
  options_.abandoned = 20.0;  // so that a heartbeat which a busy machine delays is no death
  leave_lock(far_away);
  const pid_t heart = start_heartbeat();
  const double begin = steady_seconds();
  EXPECT_ERROR(LockFile(path_, {"78", 0}, options_), ExitCode::launch, "on node7", "since 2", "heartbeat", "take another");
  EXPECT_LT(steady_seconds() - begin, 10.0);
  EXPECT_EQ(files(), 1u);
  end(heart);
}

TEST_F(Lock, OfAnotherMachineMayBeGivenBackMeanwhile) {
  options_.abandoned = 60.0;
  leave_lock(far_away);
  const pid_t owner = start([&] {
    sleep_for(0.3);
    fs::remove(path_);
    return 0;
  });
  EXPECT_LT(seconds_to_take(), 10.0);
  EXPECT_EQ(dead_owner_, "");
  EXPECT_EQ(ended(owner), 0);
}

TEST_F(Lock, OfAnEarlierStartOfTheJobIsTakenOverAtOnce) {
  options_.abandoned = 60.0;
  leave_lock(far_away);
  EXPECT_LT(seconds_to_take({"77", 2}), 10.0);
  EXPECT_TRUE(said_.empty());
  options_.abandoned = 0.6;
  for (const JobStart& other : {JobStart{"77", 1}, JobStart{"77", 0}, JobStart{"78", 2}, JobStart{"77", 2, "west"}}) {
    leave_lock(far_away);
    EXPECT_GE(seconds_to_take(other), options_.abandoned) << other.id << " " << other.restart << " " << other.cluster;
  }
}

TEST_F(Lock, OfWhichNothingIsKnownIsWatched) {
  leave_lock([](Json& owner) { owner["machine"] = ""; });  // of a system that has no number of its boot
  EXPECT_GE(seconds_to_take(), options_.abandoned);
  std::ofstream(path_) << "";
  EXPECT_GE(seconds_to_take(), options_.abandoned);
  EXPECT_NE(dead_owner_.find("an unknown job"), std::string::npos);
}

// A folder that was given by mistake may have a file of that name.
TEST_F(Lock, AFileOfSomebodyElseIsNotTakenOver) {
  for (const char* text : {"mine", "{\"name\": \"package-lock\"}"}) {
    std::ofstream(path_) << text;
    EXPECT_ERROR(LockFile(path_, {}, options_), ExitCode::io, path_.c_str(), "not written by Cohort");
    EXPECT_EQ(text_of(path_), text);
  }
}

TEST_F(Lock, ThatMayNotBeReadIsWatched) {
  const auto try_as_another = [&] {
    return in_child([&] {
      if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 98;
      const LockFile lock(path_, {}, options_);
      return lock.dead_owner().find("an unknown job") == std::string::npos ? 97 : 0;
    });
  };
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  leave_lock([](Json&) {});
  ASSERT_EQ(chmod(path_.c_str(), 0), 0);
  options_.abandoned = 20.0;
  const pid_t heart = start_heartbeat();
  EXPECT_EQ(try_as_another(), static_cast<int>(ExitCode::launch));
  end(heart);
  options_.abandoned = 0.6;
  EXPECT_EQ(try_as_another(), 0);
}

TEST_F(Lock, WhereSomethingElseHasItsName) {
  fs::create_symlink(folder_ / "nowhere", path_);
  EXPECT_ERROR(LockFile(path_, {}, options_), ExitCode::io, path_.c_str(), "not a regular file", "move it away");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_ERROR(LockFile(path_, {}, options_), ExitCode::io, path_.c_str(), "not a regular file", "move it away");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Lock, IsNotWaitedForWhenASignalSaysStop) {
  options_.abandoned = 60.0;
  leave_lock(far_away);
  EXPECT_EQ(in_child([&] {
              install_stop_signals();
              options_.say = [](const std::string&) { raise(SIGTERM); };
              const LockFile lock(path_, {}, options_);
              return 0;
            }),
            static_cast<int>(ExitCode::interrupted));
  EXPECT_EQ(files(), 1u);
}

TEST_F(Lock, SaysWhenItIsLost) {
  const LockFile lock(path_, {}, options_);
  const std::string own = text_of(path_);
  std::ofstream(path_) << "another's";
  EXPECT_FALSE(lock.touch());
  fs::remove(path_);
  EXPECT_FALSE(lock.touch());
  std::ofstream(path_) << own;
  EXPECT_TRUE(lock.touch());
}

TEST_F(Lock, IsNotLostWhenTheFileSystemSaysNothing) {
  const LockFile lock(path_, {}, options_);
  const fs::path away = folder_.path().string() + "_away";
  fs::rename(folder_.path(), away);
  std::ofstream(folder_.path()) << "no folder";  // ENOTDIR for all in it
  EXPECT_TRUE(lock.touch());
  fs::remove(folder_.path());
  fs::rename(away, folder_.path());
  std::ofstream(path_) << "";  // nothing to be read
  EXPECT_TRUE(lock.touch());
  std::ofstream(path_) << "another's";
  EXPECT_FALSE(lock.touch());
}

TEST_F(Lock, IsTouchedAtAHeartbeat) {
  LauncherFacts launcher;
  const std::unique_ptr<Communicator> alone = make_self_communicator("alone");
  const RunLock lock(*alone, folder_.path(), launcher, options_);
  const auto touched = [&] { return fs::last_write_time(path_); };
  const auto before = touched();
  const double begin = steady_seconds();
  while (touched() == before && steady_seconds() - begin < 10.0) sleep_for(0.01);
  EXPECT_NE(touched(), before);
  EXPECT_FALSE(lock.is_lost());
  std::ofstream(path_) << "another's";
  while (!lock.is_lost() && steady_seconds() - begin < 10.0) sleep_for(0.01);
  EXPECT_TRUE(lock.is_lost());
  EXPECT_ERROR(lock.fail_lost(), ExitCode::launch, folder_.path().c_str(), "no longer belongs to this job");
}

TEST_F(Lock, ALostOneIsNotGivenBack) {
  {
    const LockFile lock(path_, {}, options_);
    std::ofstream(path_) << "another's";
  }
  EXPECT_EQ(text_of(path_), "another's");
}

// Several processes want the lock of a dead one at the same moment, again and again. Each owner makes a file that only one can
// make, and keeps the lock until all have tried.
TEST_F(Lock, ExactlyOneWins) {
  constexpr int kProcesses = 3, kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    if (round % 4 == 0) leave_lock([](Json&) {});
    if (round % 8 == 2) leave_lock(far_away);
    int gate[2], end[2];
    ASSERT_TRUE(pipe(gate) == 0 && pipe(end) == 0);
    const fs::path owned = folder_ / "owned";
    const auto contend = [&] {
      char byte = 0;
      close(gate[1]);
      close(end[1]);
      if (read(gate[0], &byte, 1) != 0) return 98;  // waits until the parent closes its end
      const LockFile lock(path_, {}, options_);
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

}  // namespace
}  // namespace cohort
