#include "runtime/launcher_check.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "runtime/node_list.hpp"

namespace cohort {
namespace {

constexpr std::string_view kUsePmix =
    "start it with `srun --mpi=pmix` (`srun --mpi=list` shows what this Slurm supports), or with mpirun inside the job";

// "srun started 4 tasks (SLURM_NTASKS=4)"
std::string claim(const LauncherFacts& facts) {
  const int tasks = facts.size.value_or(1);
  const std::string numbers = fmt::format("{} ({}={})", counted(tasks, "task"), facts.size_variable, tasks);
  if (facts.launcher == Launcher::fake) return fmt::format("the environment names {} but is not that of a Slurm job", numbers);
  return fmt::format("{} started {}", name_of(facts.launcher), numbers);
}

std::string size_message(const LauncherFacts& facts, int mpi_size, std::string_view mpi_library) {
  const std::string sees = fmt::format("{}, but MPI sees a world of {}", claim(facts), mpi_size);
  switch (facts.launcher) {
    case Launcher::mpirun:
    case Launcher::mpiexec:
      return fmt::format(
          "{}: the launcher does not belong to the MPI that Cohort was built with, which is {}. Use the mpirun of that MPI", sees,
          mpi_library.substr(0, mpi_library.find(',')));
    case Launcher::fake:
      return fmt::format("{}. In a job, {}; outside of one, unset SLURM_PROCID and {}", sees, kUsePmix, facts.size_variable);
    default:
      return fmt::format("{}: every task would run alone. To run them together, {}", sees, kUsePmix);
  }
}

// A batch script that forgot srun would train on one rank of a job of many, unseen until someone looks at the speed.
void check_started_by_hand(const LauncherFacts& facts, const MpiFacts& mpi, std::vector<std::string>& warnings) {
  if (mpi.size != 1 || facts.job_tasks.value_or(1) == 1) return;
  if (facts.launcher == Launcher::batch_script) {
    fail(ExitCode::launch,
         "the job has {} tasks (SLURM_NTASKS={}), but its script started cohort without a launcher, so it would run as 1 rank. "
         "Put `srun --mpi=pmix` before it (`srun --mpi=list` shows what this Slurm supports); for one rank on purpose, `srun "
         "--mpi=pmix -n 1`",
         *facts.job_tasks, *facts.job_tasks);
  }
  if (facts.launcher == Launcher::none) {
    warnings.push_back(
        fmt::format("this allocation has {} tasks (SLURM_NTASKS={}), but cohort was started without a launcher and runs as 1 "
                    "rank: `srun --mpi=pmix cohort ...` uses them all",
                    *facts.job_tasks, *facts.job_tasks));
  }
}

// Slurm takes --ntasks-per-node beside --ntasks as an upper limit and goes on; the world is then smaller or larger than people
// think.
void check_tasks_per_node(const LauncherFacts& facts, std::vector<std::string>& warnings) {
  if (facts.launcher != Launcher::srun || !facts.asked_tasks_per_node || !facts.size || !facts.node_count) return;
  const long long asked = static_cast<long long>(*facts.asked_tasks_per_node) * *facts.node_count;
  if (asked == *facts.size) return;
  warnings.push_back(
      fmt::format("srun started {} on {}, but --ntasks-per-node={} makes {}: the run has {}. If {} were meant, give "
                  "only --nodes and --ntasks-per-node",
                  counted(*facts.size, "task"), counted(*facts.node_count, "node"), *facts.asked_tasks_per_node, asked,
                  counted(*facts.size, "rank"), asked));
}

// mpirun inside a job has a number of its own, which may be meant, or be left from a laptop.
void check_job_tasks(const LauncherFacts& facts, const MpiFacts& mpi, std::vector<std::string>& warnings) {
  const bool by_mpirun = facts.launcher == Launcher::mpirun || facts.launcher == Launcher::mpiexec;
  if (!by_mpirun || facts.in_step || !facts.job_tasks || *facts.job_tasks == mpi.size) return;
  warnings.push_back(fmt::format(
      "{} started {}, but the Slurm job has {} (SLURM_NTASKS={}): {}. If {} were meant, leave -np out or use `srun --mpi=pmix`",
      name_of(facts.launcher), counted(mpi.size, "rank"), counted(*facts.job_tasks, "task"), *facts.job_tasks,
      mpi.size < *facts.job_tasks ? "part of its allocation is idle" : "ranks share the allocated cores", *facts.job_tasks));
}

// Variables of another job in the environment (a script that exports them, sbatch from inside a job): what is right of them
// nobody knows.
void check_node_list(const LauncherFacts& facts) {
  const auto names = facts.launcher == Launcher::srun ? expand_node_list(facts.nodelist) : std::nullopt;
  if (!names) return;
  constexpr const char* kFix =
      "is there a SLURM_* variable of another job in the environment? Start from a clean one: sbatch --export=NONE";
  if (facts.node_count && static_cast<std::size_t>(*facts.node_count) != names->size()) {
    fail(ExitCode::launch, "srun's list of nodes, {}, has {}, and the step has {}: {}", facts.nodelist,
         counted(static_cast<Count>(names->size()), "name"), counted(*facts.node_count, "node"), kFix);
  }
  if (!facts.node_name.empty() && std::find(names->begin(), names->end(), facts.node_name) == names->end()) {
    fail(ExitCode::launch, "this rank is on {}, which is not in srun's list of nodes, {}: {}", facts.node_name, facts.nodelist,
         kFix);
  }
}

void check_local(const LauncherFacts& facts, const MpiFacts& mpi, std::vector<std::string>& warnings) {
  if (!facts.local_size || *facts.local_size == mpi.local_size) return;
  const std::string differ = fmt::format("{} put {} on this node, but {} of them share memory by MPI", name_of(facts.launcher),
                                         counted(*facts.local_size, "rank"), mpi.local_size);
  // Fewer: local ranks repeat on one node, and two ranks would take the same GPU.
  if (mpi.local_size < *facts.local_size) {
    fail(ExitCode::launch,
         "{}: do ranks run in containers of their own? Share /dev/shm and the PID namespace among the ranks of a node", differ);
  }
  // More: several pretended nodes on one machine, as in the course.
  warnings.push_back(differ + ": several nodes of this job are one machine; local ranks follow MPI");
}

}  // namespace

std::optional<std::string> check_before_mpi(const LauncherFacts& facts, bool mpi_needs_pmix) {
  const bool slurm = facts.launcher == Launcher::srun || facts.launcher == Launcher::fake;
  if (!mpi_needs_pmix || !slurm || facts.has_pmix) return std::nullopt;
  // A single task set by hand is an ordinary solo run; a real step of one task is not, because Open MPI sees the step and gives
  // up.
  if (facts.size.value_or(1) == 1 && facts.job_id.empty()) return std::nullopt;
  if (facts.has_pmi) {
    return fmt::format("{} with PMI-2 but without PMIx. If MPI stops below, it was built without Slurm's PMI-2: {}", claim(facts),
                       kUsePmix);
  }
  if (facts.launcher == Launcher::fake) throw SharedError(ExitCode::launch, size_message(facts, 1, ""));
  throw SharedError(ExitCode::launch, fmt::format("{} without PMIx, so MPI cannot start in them: {}", claim(facts), kUsePmix));
}

std::vector<std::string> check_against_mpi(const LauncherFacts& facts, const MpiFacts& mpi, std::string_view mpi_library) {
  std::vector<std::string> warnings;
  check_started_by_hand(facts, mpi, warnings);
  if (facts.size && *facts.size != mpi.size) fail(ExitCode::launch, "{}", size_message(facts, mpi.size, mpi_library));
  if (facts.rank && *facts.rank != mpi.rank) {
    fail(ExitCode::launch,
         "{} calls this process rank {}, but MPI calls it rank {}: the job script exports a rank of its own, starts one launcher "
         "inside another, or has variables of an earlier launch. Start cohort with one launcher, directly; in a shell, unset "
         "{}",
         name_of(facts.launcher), *facts.rank, mpi.rank, facts.rank_variable);
  }
  check_node_list(facts);
  check_tasks_per_node(facts, warnings);
  check_job_tasks(facts, mpi, warnings);
  check_local(facts, mpi, warnings);
  return warnings;
}

std::optional<std::string> check_cores(const LauncherFacts& facts, int allowed_cores) {
  if (facts.launcher != Launcher::srun || facts.cpus_per_task.value_or(0) <= allowed_cores) return std::nullopt;
  return fmt::format(
      "the job asked for {} cores per task (SLURM_CPUS_PER_TASK={}), but this process may run on {}: srun of Slurm 22.05 and "
      "later does not inherit --cpus-per-task from sbatch. Add `--cpus-per-task={}` to srun, or export SRUN_CPUS_PER_TASK={}",
      *facts.cpus_per_task, *facts.cpus_per_task, allowed_cores, *facts.cpus_per_task, *facts.cpus_per_task);
}

}  // namespace cohort
