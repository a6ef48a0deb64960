#include "checkpoint/write/on_commit.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.hpp"

extern char** environ;

namespace cohort {
namespace {

// What a launcher, or MPI itself, tells the ranks. An mpirun that finds it takes itself for a rank, and fails.
bool is_of_rank(std::string_view variable) {
  return (variable.starts_with("OMPI_") && !variable.starts_with("OMPI_ALLOW_")) || variable.starts_with("PMIX_");
}

}  // namespace

// posix_spawn, not fork or system: the process may hold pinned memory and running threads of MPI.
void run_on_commit(const std::string& command, const std::filesystem::path& folder, Count step) {
  if (command.empty()) return;
  std::string words[] = {"/bin/sh", "-c", command};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  std::string own[] = {"COHORT_CHECKPOINT=" + std::filesystem::absolute(folder).string(), "COHORT_STEP=" + std::to_string(step)};
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_of_rank(*variable)) environment.push_back(*variable);
  }
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
