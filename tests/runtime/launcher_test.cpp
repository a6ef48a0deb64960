// What read_launcher_facts() makes of the environments of real launchers, and of damaged ones.
#include "runtime/launcher.hpp"

#include <gtest/gtest.h>

#include "environments.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

using test::batch_shell;
using test::salloc_shell;
using test::srun_pmi2_task;
using test::srun_pmix_task;
using test::srun_task;
using test::with_mpirun;

TEST(LauncherFacts, EmptyEnvironmentIsStartedByHand) {
  const LauncherFacts facts = read_launcher_facts({});
  EXPECT_EQ(facts.launcher, Launcher::none);
  EXPECT_FALSE(facts.rank || facts.size || facts.local_rank || facts.job_tasks);
}

TEST(LauncherFacts, SrunWithPmix) {
  const LauncherFacts facts = read_launcher_facts(srun_pmix_task(3));
  EXPECT_EQ(facts.launcher, Launcher::srun);
  EXPECT_EQ(facts.rank, 3);
  EXPECT_EQ(facts.size, 4);
  EXPECT_EQ(facts.size_variable, "SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(facts.local_rank, 1);
  EXPECT_EQ(facts.local_size, 2);
  EXPECT_EQ(facts.node_rank, 1);
  EXPECT_EQ(facts.node_count, 2);
  EXPECT_EQ(facts.job_id, "42");
  EXPECT_EQ(facts.nodelist, "node[1-2]");
  EXPECT_EQ(facts.node_name, "node2");
  EXPECT_EQ(facts.restart_count, 0);
  EXPECT_TRUE(facts.has_pmix);
  EXPECT_FALSE(facts.has_pmi);
}

TEST(LauncherFacts, SrunWithPmi2IsStillSrun) {
  const LauncherFacts facts = read_launcher_facts(srun_pmi2_task(1));
  EXPECT_EQ(facts.launcher, Launcher::srun);
  EXPECT_FALSE(facts.has_pmix);
  EXPECT_TRUE(facts.has_pmi);
}

// The step's number of tasks is what was started; SLURM_NTASKS may be that of the job.
TEST(LauncherFacts, TheStepWinsOverTheJob) {
  Environment environment = srun_pmix_task(0);
  environment["SLURM_NTASKS"] = "16";
  EXPECT_EQ(read_launcher_facts(environment).size, 4);
}

// mpirun's processes on other nodes are children of a daemon that srun started: they see a step of one task per node.
TEST(LauncherFacts, MpirunWinsOverTheSlurmVariablesAroundIt) {
  Environment daemon = srun_task(0);
  daemon["SLURM_STEP_NUM_TASKS"] = "2";
  daemon["SLURM_STEP_TASKS_PER_NODE"] = "1(x2)";
  for (const Environment& around : {Environment{}, batch_shell(), salloc_shell(), daemon}) {
    const LauncherFacts facts = read_launcher_facts(with_mpirun(around, 3));
    EXPECT_EQ(facts.launcher, Launcher::mpirun);
    EXPECT_EQ(facts.rank, 3);
    EXPECT_EQ(facts.size, 4);
    EXPECT_EQ(facts.local_size, 4);
    EXPECT_TRUE(facts.node_name.empty());
  }
  EXPECT_EQ(read_launcher_facts(with_mpirun(batch_shell(), 0)).job_id, "42");
}

TEST(LauncherFacts, HydraInsideASlurmJob) {
  Environment environment = srun_task(1);  // the proxy's variables
  environment.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}});
  const LauncherFacts facts = read_launcher_facts(environment);
  EXPECT_EQ(facts.launcher, Launcher::mpiexec);
  EXPECT_EQ(facts.rank, 5);
  EXPECT_EQ(facts.size, 8);
  EXPECT_EQ(facts.local_rank, 1);
}

TEST(LauncherFacts, OnlyPmixRank) {
  const LauncherFacts facts = read_launcher_facts({{"PMIX_RANK", "2"}});
  EXPECT_EQ(facts.launcher, Launcher::mpiexec);
  EXPECT_EQ(facts.rank, 2);
  EXPECT_FALSE(facts.size);
}

// SLURM_PROCID=0 and SLURM_NTASKS=4 of a batch script speak of no started task.
TEST(LauncherFacts, BatchShellHasNoRank) {
  const LauncherFacts facts = read_launcher_facts(batch_shell());
  EXPECT_EQ(facts.launcher, Launcher::batch_script);
  EXPECT_FALSE(facts.rank || facts.size);
  EXPECT_EQ(facts.job_tasks, 4);
}

TEST(LauncherFacts, ShellsOfAnAllocationAreStartedByHand) {
  EXPECT_EQ(read_launcher_facts(salloc_shell()).launcher, Launcher::none);
  // With LaunchParameters=use_interactive_step the shell is a special step of one task, on the first node.
  for (const bool with_step_id : {false, true}) {
    Environment interactive = batch_shell();
    interactive.erase("ENVIRONMENT");
    interactive["SLURM_STEP_NUM_TASKS"] = "1";
    if (with_step_id) interactive["SLURM_STEP_ID"] = "4294967290";
    const LauncherFacts facts = read_launcher_facts(interactive);
    EXPECT_EQ(facts.launcher, Launcher::none);
    EXPECT_EQ(facts.job_tasks, 4);
  }
}

TEST(LauncherFacts, VariablesSetByHand) {
  const LauncherFacts facts = read_launcher_facts({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(facts.launcher, Launcher::fake);
  EXPECT_EQ(facts.rank, 1);
  EXPECT_EQ(facts.size, 2);
}

TEST(LauncherFacts, EmptyVariablesAreUnset) {
  const LauncherFacts facts = read_launcher_facts({{"SLURM_PROCID", ""}, {"SLURM_NTASKS", ""}, {"OMPI_COMM_WORLD_RANK", ""}});
  EXPECT_EQ(facts.launcher, Launcher::none);
  EXPECT_FALSE(facts.job_tasks);
}

TEST(LauncherFacts, JobFacts) {
  Environment environment = srun_pmix_task(0);
  environment.insert({{"SLURM_CPUS_PER_TASK", "6"},
                      {"SLURM_RESTART_COUNT", "2"},
                      {"SLURM_NTASKS_PER_NODE", "2"},
                      {"SLURM_CLUSTER_NAME", "west"}});
  const LauncherFacts facts = read_launcher_facts(environment);
  EXPECT_EQ(facts.cpus_per_task, 6);
  EXPECT_EQ(facts.restart_count, 2);
  EXPECT_EQ(facts.cluster, "west");
  EXPECT_EQ(facts.asked_tasks_per_node, 2);
}

TEST(LauncherFacts, MalformedNumbersNameVariableAndValue) {
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_NUM_NODES",
                           "SLURM_CPUS_PER_TASK", "SLURM_RESTART_COUNT", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_ID"}) {
    for (const char* value : {"two", "1x", "-1", " 1", "1.0", "99999999999999999999"}) {
      Environment environment = srun_pmix_task(0);
      environment.erase("SLURM_STEP_NUM_NODES");
      environment[name] = value;
      EXPECT_ERROR(read_launcher_facts(environment), ExitCode::launch, name, value);
    }
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    Environment environment = with_mpirun({}, 0);
    environment[name] = "many";
    EXPECT_ERROR(read_launcher_facts(environment), ExitCode::launch, name, "many");
  }
  Environment no_tasks = srun_pmix_task(0);
  no_tasks["SLURM_STEP_NUM_TASKS"] = "0";
  EXPECT_ERROR(read_launcher_facts(no_tasks), ExitCode::launch, "SLURM_STEP_NUM_TASKS", "'0'");
}

TEST(LauncherFacts, ContradictionsAreRefused) {
  Environment rank_too_large = srun_pmix_task(0);
  rank_too_large["SLURM_PROCID"] = "4";
  EXPECT_ERROR(read_launcher_facts(rank_too_large), ExitCode::launch, "rank 4 of 4");
  Environment node_too_large = srun_pmix_task(0);
  node_too_large["SLURM_NODEID"] = "2";
  EXPECT_ERROR(read_launcher_facts(node_too_large), ExitCode::launch, "node 2 of 2");
  Environment other_sum = srun_pmix_task(0);
  other_sum["SLURM_STEP_TASKS_PER_NODE"] = "2(x3)";
  EXPECT_ERROR(read_launcher_facts(other_sum), ExitCode::launch, "2(x3)", "6 tasks", "SLURM_STEP_NUM_TASKS=4");
}

TEST(TasksPerNode, Lists) {
  EXPECT_EQ(parse_tasks_per_node("V", "2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_tasks_per_node("V", "4"), (std::vector<int>{4}));
  EXPECT_EQ(parse_tasks_per_node("V", "1,2,1(x2)"), (std::vector<int>{1, 2, 1, 1}));
  for (const char* text : {"", ",", "2,", "2(3)", "2(x3", "2(x0)", "0", "a", "2(x3)1", "2 ,1", "1(x999999999)"}) {
    EXPECT_ERROR(parse_tasks_per_node("SLURM_TASKS_PER_NODE", text), ExitCode::launch, "SLURM_TASKS_PER_NODE", text);
  }
}

}  // namespace
}  // namespace cohort
