// One MPI program in a step of srun: the first leaves its mark, the second is told.
#include "runtime/step_claim.hpp"

#include <gtest/gtest.h>

#include "environments.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::test {
namespace {

class StepClaim : public ::testing::Test {
 protected:
  void claim(Environment environment) {
    environment["PMIX_SERVER_TMPDIR"] = folder_.path().string();
    claim_step(environment, read_launcher_facts(environment));
  }
  TemporaryFolder folder_;
};

TEST_F(StepClaim, ASecondProgramOfTheStepIsRefusedOnEachRank) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_NO_THROW(claim(srun_pmix_task(rank)));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_ERROR(claim(srun_pmix_task(rank)), ExitCode::launch, "in this srun step", "its own srun");
  }
}

TEST_F(StepClaim, OutsideOfSuchStepsNobodyIs) {
  for (int program = 0; program < 2; ++program) {
    EXPECT_NO_THROW(claim(srun_task(0)));
    EXPECT_NO_THROW(claim(srun_pmi2_task(0)));
    EXPECT_NO_THROW(claim(with_mpirun(srun_pmix_task(0), 0)));
    EXPECT_NO_THROW(claim({}));
  }
}

TEST_F(StepClaim, AFolderThatIsNotThereIsNoReasonToStop) {
  Environment environment = srun_pmix_task(0);
  EXPECT_NO_THROW(claim_step(environment, read_launcher_facts(environment)));
  environment["PMIX_SERVER_TMPDIR"] = (folder_ / "missing").string();
  for (int program = 0; program < 2; ++program) EXPECT_NO_THROW(claim_step(environment, read_launcher_facts(environment)));
}

}  // namespace
}  // namespace cohort::test
