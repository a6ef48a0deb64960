// Which launches are refused, which are warned of, and that ordinary ones are neither.
#include "runtime/launcher_check.hpp"

#include <gtest/gtest.h>

#include "environments.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

using test::batch_shell;
using test::mpirun_daemon;
using test::salloc_shell;
using test::srun_pmi2_task;
using test::srun_pmix_task;
using test::srun_task;
using test::with_mpirun;

constexpr const char* kLibrary = "Open MPI v4.1.4, package: some distribution";

MpiFacts solo() { return {}; }
MpiFacts one_node(int rank) { return {rank, 4, rank, 4, 0, 1}; }
MpiFacts two_nodes(int rank) { return {rank, 4, rank % 2, 2, rank / 2, 2}; }

std::vector<std::string> check(const Environment& environment, const MpiFacts& mpi) {
  return check_against_mpi(read_launcher_facts(environment), mpi, kLibrary);
}

TEST(CheckAgainstMpi, OrdinaryLaunchesPassWithoutWarnings) {
  EXPECT_TRUE(check({}, solo()).empty());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(check(srun_pmix_task(rank), two_nodes(rank)).empty());
    EXPECT_TRUE(check(with_mpirun({}, rank), one_node(rank)).empty());
    EXPECT_TRUE(check(with_mpirun(batch_shell(), rank), one_node(rank)).empty());
    EXPECT_TRUE(check(with_mpirun(mpirun_daemon(), rank), one_node(rank)).empty()) << "2 tasks of srun: mpirun's daemons";
    EXPECT_TRUE(check(with_mpirun(salloc_shell(), rank), one_node(rank)).empty());
  }
  // A launcher that leaves no variables we know: MPI is believed.
  EXPECT_TRUE(check({}, one_node(2)).empty());
}

TEST(CheckAgainstMpi, MpirunWithAnotherNumberThanTheJobHas) {
  for (const char* tasks : {"2", "8"}) {
    Environment environment = batch_shell();
    environment["SLURM_NTASKS"] = environment["SLURM_NPROCS"] = tasks;
    const auto warnings = check(with_mpirun(environment, 1), one_node(1));
    ASSERT_EQ(warnings.size(), 1U) << tasks;
    EXPECT_NE(warnings[0].find("mpirun started 4 ranks"), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find("SLURM_NTASKS=" + std::string(tasks)), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find(*tasks == '2' ? "share the allocated cores" : "is idle"), std::string::npos) << warnings[0];
  }
}

// Left over in a shell: nobody else is there.
TEST(CheckAgainstMpi, AVariableOfAnEarlierLaunch) {
  EXPECT_ERROR(check({{"OMPI_COMM_WORLD_RANK", "2"}}, solo()), ExitCode::launch, "mpirun calls this process rank 2",
               "MPI calls it rank 0", "unset OMPI_COMM_WORLD_RANK");
}

TEST(CheckAgainstMpi, TasksOfSrunThatMpiDidNotJoin) {
  EXPECT_ERROR(check(srun_pmi2_task(0), solo()), ExitCode::launch, "srun started 4 tasks", "SLURM_STEP_NUM_TASKS=4", "world of 1",
               "srun --mpi=pmix", "srun --mpi=list");
}

TEST(CheckAgainstMpi, MpirunOfAnotherMpi) {
  EXPECT_ERROR(check(with_mpirun({}, 1), solo()), ExitCode::launch, "OMPI_COMM_WORLD_SIZE=4", "world of 1",
               "Open MPI v4.1.4. Use");
  EXPECT_ERROR(check({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, solo()), ExitCode::launch, "mpiexec", "PMI_SIZE=2");
}

TEST(CheckAgainstMpi, VariablesSetByHand) {
  EXPECT_ERROR(check({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, solo()), ExitCode::launch, "srun --mpi=pmix",
               "unset SLURM_PROCID");
  EXPECT_TRUE(check({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, solo()).empty());
}

TEST(CheckAgainstMpi, ABatchScriptWithoutSrunIsRefused) {
  EXPECT_ERROR(check(batch_shell(), solo()), ExitCode::launch, "SLURM_NTASKS=4", "srun --mpi=pmix");
  Environment one_task = batch_shell();
  one_task["SLURM_NTASKS"] = one_task["SLURM_NPROCS"] = "1";
  EXPECT_TRUE(check(one_task, solo()).empty());
}

// In a shell a person may want one rank; the warning is for those who did not.
TEST(CheckAgainstMpi, AShellOfAnAllocationIsWarned) {
  const auto warnings = check(salloc_shell(), solo());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("srun --mpi=pmix"), std::string::npos);
}

TEST(CheckAgainstMpi, OtherRank) {
  EXPECT_ERROR(check(srun_pmix_task(1), two_nodes(2)), ExitCode::launch, "rank 1", "MPI calls it rank 2");
}

TEST(CheckAgainstMpi, NtasksAndNtasksPerNodeDisagree) {
  Environment environment = srun_pmix_task(0);
  environment["SLURM_NTASKS_PER_NODE"] = "3";
  const auto warnings = check(environment, two_nodes(0));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("--ntasks-per-node=3 makes 6"), std::string::npos) << warnings[0];
  environment["SLURM_NTASKS_PER_NODE"] = "2";
  EXPECT_TRUE(check(environment, two_nodes(0)).empty());
}

// Fewer ranks that share memory than Slurm put there: every rank would be local rank 0 and take the first GPU.
TEST(CheckAgainstMpi, NodeListsThatDisagree) {
  Environment environment = srun_pmix_task(1);
  environment["SLURM_STEP_NODELIST"] = "node[1-3]";
  EXPECT_ERROR(check(environment, two_nodes(1)), ExitCode::launch, "node[1-3], has 3 names", "2 nodes", "--export=NONE");
  environment["SLURM_STEP_NODELIST"] = "node[2-3]";
  EXPECT_ERROR(check(environment, two_nodes(1)), ExitCode::launch, "this rank is on node1", "node[2-3]");
  environment["SLURM_STEP_NODELIST"] = "node[1-";  // not to be understood: not compared
  EXPECT_TRUE(check(environment, two_nodes(1)).empty());
}

TEST(CheckAgainstMpi, LocalSizes) {
  EXPECT_ERROR(check(srun_pmix_task(1), (MpiFacts{1, 4, 0, 1, 1, 4})), ExitCode::launch, "2 ranks on this node", "1 of them");
  const auto pretended = check(srun_pmix_task(1), one_node(1));
  ASSERT_EQ(pretended.size(), 1U);
  EXPECT_NE(pretended[0].find("one machine"), std::string::npos);
}

TEST(CheckBeforeMpi, SrunWithoutPmiIsRefused) {
  EXPECT_ERROR(check_before_mpi(read_launcher_facts(srun_task(2)), true), ExitCode::launch, "srun started 4 tasks",
               "srun --mpi=pmix");
  EXPECT_THROW(check_before_mpi(read_launcher_facts(srun_task(2)), true), SharedError);  // so that one task prints it
  // Open MPI gives up in a step of one task as well.
  Environment one = srun_task(0);
  one["SLURM_STEP_NUM_TASKS"] = "1";
  one["SLURM_STEP_TASKS_PER_NODE"] = "1";
  EXPECT_ERROR(check_before_mpi(read_launcher_facts(one), true), ExitCode::launch, "1 task (", "srun --mpi=pmix");
}

TEST(CheckBeforeMpi, Pmi2IsRemarkedOn) {
  const auto remark = check_before_mpi(read_launcher_facts(srun_pmi2_task(0)), true);
  ASSERT_TRUE(remark);
  EXPECT_NE(remark->find("srun --mpi=pmix"), std::string::npos);
}

TEST(CheckBeforeMpi, OtherLaunchesAndOtherMpisPass) {
  EXPECT_FALSE(check_before_mpi(read_launcher_facts(srun_task(2)), false));  // MPICH finds Slurm's PMI by itself
  for (const Environment& environment : {Environment{}, srun_pmix_task(1), with_mpirun({}, 0), with_mpirun(batch_shell(), 0),
                                         with_mpirun(srun_task(0), 0), batch_shell(), salloc_shell()}) {
    EXPECT_FALSE(check_before_mpi(read_launcher_facts(environment), true));
  }
}

TEST(CheckCores, CpusPerTaskThatSrunDidNotTakeOver) {
  Environment environment = srun_pmix_task(0);
  environment["SLURM_CPUS_PER_TASK"] = "4";
  const auto warning = check_cores(read_launcher_facts(environment), 1);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("SRUN_CPUS_PER_TASK=4"), std::string::npos);
  EXPECT_FALSE(check_cores(read_launcher_facts(environment), 4));
  EXPECT_FALSE(check_cores(read_launcher_facts(srun_pmix_task(0)), 1));
}

}  // namespace
}  // namespace cohort
