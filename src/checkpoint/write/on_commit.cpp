#include "checkpoint/write/on_commit.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"

extern char** environ;

namespace cohort {

// posix_spawn, not fork or system: the process may hold pinned memory and running threads of MPI.
void run_on_commit(const std::string& command, const std::filesystem::path& folder, Count step) {
  if (command.empty()) return;
  std::string words[] = {"/bin/sh", "-c", command};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  std::string own[] = {"COHORT_CHECKPOINT=" + std::filesystem::absolute(folder).string(), "COHORT_STEP=" + std::to_string(step)};
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  for (std::string& variable : own) environment.push_back(variable.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  if (const int error = ::posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments, environment.data()); error != 0) {
    fail(ExitCode::io, "checkpoint.on_commit cannot be started: {}", std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail(ExitCode::io, "checkpoint.on_commit: {}", std::strerror(errno));
  }
  if (WIFSIGNALED(status)) fail(ExitCode::io, "checkpoint.on_commit was killed by signal {}: {}", WTERMSIG(status), command);
  if (WEXITSTATUS(status) != 0)
    fail(ExitCode::io, "checkpoint.on_commit failed with exit code {}: {}", WEXITSTATUS(status), command);
}

}  // namespace cohort
