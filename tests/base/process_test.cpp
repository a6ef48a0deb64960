#include "base/process.hpp"

#include <gtest/gtest.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX's, with kill()
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/machine.hpp"

namespace cohort {
namespace {

using State = ProcessFacts::State;

// A child that sleeps, ended and waited for when this is gone.
class Sleeper {
 public:
  Sleeper() : process_(fork()) {
    if (process_ == 0) {
      while (true) pause();
    }
  }
  ~Sleeper() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void send(int signal) const { kill(process_, signal); }
  /// Whether it comes to be in that state within some seconds.
  bool becomes(State state) const {
    for (int i = 0; i < 500; ++i) {
      const auto facts = process_facts(process_);
      if (facts && facts->state == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_;
};

TEST(Process, OwnFacts) {
  const auto facts = process_facts(getpid());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->parent, getppid());
  EXPECT_EQ(facts->state, State::running);
  EXPECT_EQ(facts->name, program_file().filename().string().substr(0, 15));
  EXPECT_FALSE(facts->began.empty());
  EXPECT_EQ(facts->began, process_facts(getpid())->began);
}

TEST(Process, StatesOfAChild) {
  const Sleeper child;
  ASSERT_TRUE(child.becomes(State::asleep));
  EXPECT_EQ(process_facts(child.process())->parent, getpid());
  child.send(SIGSTOP);
  EXPECT_TRUE(child.becomes(State::stopped));
  child.send(SIGKILL);
  EXPECT_TRUE(child.becomes(State::dead));
}

TEST(Process, OneThatIsGoneHasNoFacts) {
  pid_t process = 0;
  {
    const Sleeper child;
    process = child.process();
  }
  EXPECT_FALSE(process_facts(process));
}

TEST(Process, SeesItselfAmongOthers) {
  const auto all = visible_processes();
  EXPECT_NE(std::find(all.begin(), all.end(), getpid()), all.end());
}

TEST(Process, EnvironmentAtStartDoesNotChange) {
  const std::string before = environment_at_start(getpid());
  EXPECT_NE(before.find("PATH="), std::string::npos);
  setenv("COHORT_OF_A_TEST", "1", 1);
  EXPECT_EQ(environment_at_start(getpid()), before);
  unsetenv("COHORT_OF_A_TEST");
}

TEST(Machine, TellsWhichItIs) {
  EXPECT_FALSE(boot_id().empty());
  EXPECT_EQ(boot_id(), boot_id());
  EXPECT_FALSE(process_namespace().empty());
  EXPECT_FALSE(network_namespace().empty());
  EXPECT_FALSE(cpu_model().empty());
  const Memory memory = machine_memory();
  EXPECT_GT(memory.available, 0);
  EXPECT_GE(memory.total, memory.available);
}

}  // namespace
}  // namespace cohort
