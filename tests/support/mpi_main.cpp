// main of the tests that run on several ranks. Every rank runs every test. The results are combined when a test ends, so that a
// failed assertion on one rank fails the test on all, and no rank leaves for the next test's collectives alone.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

#include "support/test_device.hpp"

namespace {

class CombineResults : public ::testing::EmptyTestEventListener {
 public:
  explicit CombineResults(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed() && rank_ != 0)
      std::printf("[rank %d] %s:%d %s\n", rank_, result.file_name() ? result.file_name() : "", result.line_number(),
                  result.summary());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    int failed = info.result()->Failed() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failures_ += failed;
    if (failed > 0 && rank_ == 0 && !info.result()->Failed())
      std::printf("[  FAILED  ] %s.%s on %d other rank(s)\n", info.test_suite_name(), info.name(), failed);
  }
  int failures() const { return failures_; }

 private:
  int rank_;
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  auto* combine = new CombineResults(rank);
  if (rank != 0) delete listeners.Release(listeners.default_result_printer());  // rank 0 alone speaks
  listeners.Append(combine);                                                    // GoogleTest owns it
  int failures = 0;
  {
    const cohort::test::TestDevice device(rank);  // the tests run on one node
    const int own = RUN_ALL_TESTS();
    failures = combine->failures() + own;
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
