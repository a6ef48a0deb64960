#include "runtime/step_claim.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

namespace cohort {

void claim_step(const Environment& environment, const LauncherFacts& facts) {
  const auto folder = environment.find("PMIX_SERVER_TMPDIR");
  if (facts.launcher != Launcher::srun || !facts.has_pmix || !facts.rank || folder == environment.end()) return;
  const std::string mark = fmt::format("{}/cohort.rank{}", folder->second, *facts.rank);
  const int descriptor = ::open(mark.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor >= 0) {
    ::close(descriptor);
  } else if (errno == EEXIST) {
    throw SharedError(ExitCode::launch,
                      "another program has already used MPI in this srun step, and Slurm starts MPI only once per step: give "
                      "each program its own srun, as in `srun --mpi=pmix cohort topo && srun --mpi=pmix cohort train ...`");
  }
}

}  // namespace cohort
