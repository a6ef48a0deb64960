#include "runtime/launcher.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

extern char** environ;

namespace cohort {
namespace {

// Slurm numbers its special steps (batch script, interactive shell, external) from here up; ordinary steps never reach it.
constexpr unsigned kFirstSpecialStep = 0xfffffff0U;
// More tasks in one list than this is not a job but a damaged variable.
constexpr int kMostNodes = 1 << 20;

std::string_view text_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view{} : std::string_view{found->second};
}

[[noreturn]] void fail_variable(std::string_view name, std::string_view value, std::string_view wanted) {
  fail(ExitCode::launch,
       "environment variable {}='{}' is not {}: the launcher sets it, so look for an export in the job script or the shell, and "
       "remove it",
       name, value, wanted);
}

std::optional<int> number_of(const Environment& environment, std::string_view name, int least) {
  const std::string_view text = text_of(environment, name);
  if (text.empty()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    fail_variable(name, text, fmt::format("a whole number from {} to {}", least, std::numeric_limits<int>::max()));
  }
  return value;
}

struct Named {
  std::string_view name;
  std::optional<int> value;
};

// The first of several names for the same fact that is set.
Named first_number(const Environment& environment, std::initializer_list<std::string_view> names, int least) {
  for (const std::string_view name : names) {
    if (const auto value = number_of(environment, name, least)) return {name, value};
  }
  return {};
}

std::string first_text(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto text = text_of(environment, name); !text.empty()) return std::string(text);
  }
  return {};
}

bool in_ordinary_step(const Environment& environment) {
  const std::string text = first_text(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (text.empty()) return false;
  unsigned long long step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || end != text.data() + text.size()) fail_variable("SLURM_STEP_ID", text, "a step number");
  return step < kFirstSpecialStep;
}

Launcher which_launcher(const Environment& environment) {
  const auto is_set = [&](std::string_view name) { return !text_of(environment, name).empty(); };
  if (is_set("OMPI_COMM_WORLD_RANK")) return Launcher::mpirun;
  if (is_set("PMI_RANK") && is_set("MPI_LOCALNRANKS")) return Launcher::mpiexec;
  if (is_set("SLURM_PROCID")) {
    if (in_ordinary_step(environment)) return Launcher::srun;
    if (!is_set("SLURM_JOB_ID") && !is_set("SLURM_JOBID")) return Launcher::fake;
    if (!is_set("SLURM_STEP_NUM_TASKS")) return Launcher::batch_script;
    // salloc can start its shell as a special step of one task, on the first node.
    return number_of(environment, "SLURM_STEP_NUM_TASKS", 1) == 1 ? Launcher::none : Launcher::srun;
  }
  if (is_set("PMI_RANK") || is_set("PMIX_RANK")) return Launcher::mpiexec;
  return Launcher::none;
}

void set_rank(LauncherFacts& facts, const Named& rank) {
  facts.rank = rank.value;
  facts.rank_variable = rank.name;
}

void set_size(LauncherFacts& facts, const Named& size) {
  facts.size = size.value;
  facts.size_variable = size.name;
}

void read_open_mpi(LauncherFacts& facts, const Environment& environment) {
  set_rank(facts, first_number(environment, {"OMPI_COMM_WORLD_RANK"}, 0));
  set_size(facts, first_number(environment, {"OMPI_COMM_WORLD_SIZE"}, 1));
  facts.local_rank = number_of(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0);
  facts.local_size = number_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1);
}

void read_pmi(LauncherFacts& facts, const Environment& environment) {
  set_rank(facts, first_number(environment, {"PMI_RANK", "PMIX_RANK"}, 0));
  set_size(facts, first_number(environment, {"PMI_SIZE"}, 1));
  facts.local_rank = number_of(environment, "MPI_LOCALRANKID", 0);
  facts.local_size = number_of(environment, "MPI_LOCALNRANKS", 1);
}

void read_slurm_step(LauncherFacts& facts, const Environment& environment) {
  set_rank(facts, first_number(environment, {"SLURM_PROCID"}, 0));
  set_size(facts, first_number(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, 1));
  facts.local_rank = number_of(environment, "SLURM_LOCALID", 0);
  facts.node_rank = number_of(environment, "SLURM_NODEID", 0);
  facts.node_count = first_number(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, 1).value;
  facts.node_name = text_of(environment, "SLURMD_NODENAME");
  for (const std::string_view name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const std::string_view text = text_of(environment, name);
    if (text.empty()) continue;
    facts.tasks_per_node = parse_tasks_per_node(name, text);
    const int sum = std::accumulate(facts.tasks_per_node.begin(), facts.tasks_per_node.end(), 0);
    if (facts.size && sum != *facts.size) {
      fail(ExitCode::launch,
           "{}='{}' adds up to {}, but {}={}: unset the one that the job script exports, or start with `srun "
           "--mpi=pmix` and let Slurm set both",
           name, text, counted(sum, "task"), facts.size_variable, *facts.size);
    }
    const auto node = static_cast<std::size_t>(facts.node_rank.value_or(0));
    if (facts.node_rank && node < facts.tasks_per_node.size()) facts.local_size = facts.tasks_per_node[node];
    break;
  }
}

void read_slurm_job(LauncherFacts& facts, const Environment& environment) {
  facts.job_id = first_text(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  facts.cluster = text_of(environment, "SLURM_CLUSTER_NAME");
  facts.array_job_id = text_of(environment, "SLURM_ARRAY_JOB_ID");
  facts.array_task_id = text_of(environment, "SLURM_ARRAY_TASK_ID");
  facts.nodelist = first_text(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  facts.in_step = in_ordinary_step(environment);
  facts.job_tasks = first_number(environment, {"SLURM_NTASKS", "SLURM_NPROCS"}, 1).value;
  facts.asked_tasks_per_node = number_of(environment, "SLURM_NTASKS_PER_NODE", 1);
  facts.cpus_per_task = number_of(environment, "SLURM_CPUS_PER_TASK", 1);
  facts.restart_count = number_of(environment, "SLURM_RESTART_COUNT", 0).value_or(0);
}

void check_below(std::optional<int> index, std::optional<int> count, std::string_view what, std::string_view of) {
  if (!index || !count || *index < *count) return;
  fail(ExitCode::launch,
       "the launcher's variables contradict each other: {} {} of {} {} (numbered from 0). Unset those that the job "
       "script exports, and let the launcher set them",
       what, *index, *count, of);
}

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment environment_of(std::int64_t process) {
  const std::string text = environment_at_start(process);
  Environment environment;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    const std::size_t equals = text.find('=', at);
    if (equals < end) environment.emplace(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    at = end + 1;
  }
  return environment;
}

std::string_view name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::mpirun:
      return "mpirun";
    case Launcher::mpiexec:
      return "mpiexec";
    case Launcher::srun:
      return "srun";
    case Launcher::batch_script:
      return "batch script";
    case Launcher::fake:
      return "set by hand";
  }
  return "unknown";
}

std::vector<int> parse_tasks_per_node(std::string_view variable, std::string_view text) {
  static constexpr std::string_view kWanted = "a list of tasks per node such as 2(x3),1";
  std::vector<int> tasks;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < 1 || value > kMostNodes) fail_variable(variable, text, kWanted);
    at = next;
    return value;
  };
  const auto expect = [&](std::string_view token) {
    if (!std::string_view(at, static_cast<std::size_t>(end - at)).starts_with(token)) fail_variable(variable, text, kWanted);
    at += token.size();
  };
  while (true) {
    const int count = number();
    int nodes = 1;
    if (at != end && *at == '(') {
      expect("(x");
      nodes = number();
      expect(")");
    }
    if (static_cast<std::size_t>(nodes) + tasks.size() > kMostNodes) fail_variable(variable, text, kWanted);
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
    if (at == end) return tasks;
    expect(",");
  }
}

LauncherFacts read_launcher_facts(const Environment& environment) {
  LauncherFacts facts;
  facts.launcher = which_launcher(environment);
  switch (facts.launcher) {
    case Launcher::mpirun:
      read_open_mpi(facts, environment);
      break;
    case Launcher::mpiexec:
      read_pmi(facts, environment);
      break;
    case Launcher::srun:
    case Launcher::fake:
      read_slurm_step(facts, environment);
      break;
    case Launcher::batch_script:
    case Launcher::none:
      break;
  }
  read_slurm_job(facts, environment);
  const auto is_set = [&](std::string_view name) { return !text_of(environment, name).empty(); };
  facts.has_pmix = is_set("PMIX_NAMESPACE") || is_set("PMIX_RANK");
  facts.has_pmi = is_set("PMI_RANK") || is_set("PMI_FD") || is_set("PMI_PORT");
  check_below(facts.rank, facts.size, "rank", "ranks");
  check_below(facts.local_rank, facts.local_size, "local rank", "ranks on this node");
  check_below(facts.node_rank, facts.node_count, "node", "nodes");
  return facts;
}

bool is_child_of_launcher() {
  // As the kernel has them: cut off after 15 characters.
  static const std::set<std::string, std::less<>> kLaunchers{"mpirun",          "mpiexec",       "orterun",   "orted",
                                                             "prterun",         "prte",          "prted",     "hydra_pmi_proxy",
                                                             "hydra_bstrap_pr", "mpiexec.hydra", "slurmstepd"};
  std::error_code error;
  const Environment environment = environment_of(getpid());  // as it was at the start: MPI adds to it
  const std::string_view folder = text_of(environment, "PMIX_SERVER_TMPDIR");
  if (!folder.empty() && std::filesystem::is_directory(folder, error)) return true;
  for (std::int64_t process = getppid(); process > 0;) {
    const std::optional<ProcessFacts> ancestor = process_facts(process);
    if (!ancestor) return false;
    if (kLaunchers.contains(ancestor->name)) return true;
    process = ancestor->parent;
  }
  return false;
}

std::optional<int> launcher_rank_now() noexcept {
  try {
    return read_launcher_facts(current_environment()).rank;
  } catch (...) {
    return std::nullopt;  // malformed variables are reported where the facts are needed
  }
}

}  // namespace cohort
