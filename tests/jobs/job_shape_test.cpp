// Nodes, ranks, cores and GPUs of a job, from layout and site.
#include <gtest/gtest.h>

#include "jobs/job_shape.hpp"
#include "support/expect_error.hpp"

namespace cohort {
namespace {

struct Layout {
  Count dp = 0;
  Count pp = 1;
  Count cp = 1;
  Count tp = 1;
};

RunConfig run_of(const Layout& layout, const std::string& device = "cpu", Count threads = 1) {
  RunConfig config;
  config.parallel.dp = layout.dp;
  config.parallel.pp = layout.pp;
  config.parallel.cp = layout.cp;
  config.parallel.tp = layout.tp;
  config.device.kind = device;
  config.device.threads = threads;
  return config;
}

ShapeRequest asked(Count ranks, Count nodes = 0, Count least = 1, Count most = 0) { return {ranks, nodes, least, most, "t"}; }

const NodeLimits kUnknown{.site = "s", .cpus = 0, .gpus = {}, .cpus_per_gpu = 0, .most_nodes = 0};
const NodeLimits kCpus{.site = "s", .cpus = 8, .gpus = 0, .cpus_per_gpu = 0, .most_nodes = 4};
const NodeLimits kGpus{.site = "s", .cpus = 64, .gpus = 4, .cpus_per_gpu = 16, .most_nodes = 8};

void refuses(const RunConfig& config, const ShapeRequest& request, const NodeLimits& limits,
             std::initializer_list<const char*> parts, ExitCode code = ExitCode::config) {
  test::expect_error([&] { shape_of_job(config, request, limits); }, code, parts);
}

TEST(Shape, FewestNodesThatHoldTheRanksInEqualShares) {
  EXPECT_EQ(shape_of_job(run_of({}), asked(8), kCpus), (JobShape{1, 8, 1, 0}));
  EXPECT_EQ(shape_of_job(run_of({}), asked(10), kCpus), (JobShape{2, 5, 1, 0}));
  EXPECT_EQ(shape_of_job(run_of({}), asked(9), kCpus), (JobShape{3, 3, 1, 0}));
  EXPECT_EQ(shape_of_job(run_of({}), asked(4, 0, 2), kUnknown), (JobShape{2, 2, 1, 0}));
  EXPECT_EQ(shape_of_job(run_of({}), asked(4, 4), kUnknown), (JobShape{4, 1, 1, 0}));
}

TEST(Shape, RanksAreThoseOfTheLayoutOrFillTheNodes) {
  EXPECT_EQ(shape_of_job(run_of({.dp = 2, .pp = 2}), asked(0), kCpus), (JobShape{1, 4, 1, 0}));
  EXPECT_EQ(shape_of_job(run_of({.tp = 2}), asked(0, 2), kGpus).ranks(), 128) << "one core a rank, 64 a node";
}

TEST(Shape, ARankHasAGpuOrItsThreads) {
  EXPECT_EQ(shape_of_job(run_of({}, "cuda", 1), asked(8), kGpus), (JobShape{2, 4, 16, 4}));
  EXPECT_EQ(shape_of_job(run_of({}, "cuda", 1), asked(0, 2), kGpus), (JobShape{2, 4, 16, 4}));
  EXPECT_EQ(shape_of_job(run_of({}, "cuda", 3), asked(2), kUnknown), (JobShape{1, 2, 3, 2}));
  EXPECT_EQ(shape_of_job(run_of({}, "cpu", 4), asked(4), kCpus), (JobShape{2, 2, 4, 0}));
  refuses(run_of({}, "cuda"), asked(1), kCpus, {"site s has no GPUs"});
  refuses(run_of({}, "cpu", 9), asked(1), kCpus, {"9 cores", "device.threads", "at most 8"});
}

// Of 6 ranks with tp 2 a node with 4 slots holds two groups, not one and a half: 3 nodes of 2 ranks, not 2 of 3.
TEST(Shape, TensorParallelGroupsStayOnANode) {
  EXPECT_EQ(shape_of_job(run_of({.tp = 2}, "cuda"), asked(6), kGpus), (JobShape{3, 2, 16, 2}));
  refuses(run_of({.tp = 2}, "cuda"), asked(6, 2), kGpus, {"6 ranks", "2 nodes", "tp = 2", "4 or 8"});
  refuses(run_of({.tp = 8}, "cuda"), asked(8), kGpus, {"parallel.tp = 8", "at most 4 ranks", "Nearest tp: 4"});
}

TEST(Shape, RefusesWithTheNearestThatFit) {
  refuses(run_of({}), asked(10, 0, 1, 1), kCpus,
          {"10 ranks", "1 node", "at most 8 ranks", "Nearest numbers of ranks that can: 8"});
  refuses(run_of({}), asked(33), kCpus, {"33 ranks", "1 to 4", "32"});
  refuses(run_of({}), asked(11), kCpus, {"11 ranks", "10 or 12"});
  refuses(run_of({}), asked(8, 5), kCpus, {"5 nodes", "at most 4"});
  refuses(run_of({}), asked(8, 1, 2), kUnknown, {"template t is for 2 nodes or more"});
  refuses(run_of({}), asked(8, 2, 1, 1), kUnknown, {"template t is for 1 node"});
  refuses(run_of({.tp = 2}), asked(3), kUnknown, {"needs 2 ranks, but the job has 3"});
  refuses(run_of({.dp = 4}), asked(2), kUnknown, {"needs 4 ranks, but the job has 2"});
  refuses(run_of({}), asked(5'000'000), kUnknown, {"5000000"});
}

TEST(Shape, SomethingMustSayHowManyRanks) {
  refuses(run_of({.pp = 2}), asked(0), kUnknown, {"--ranks", "multiple of 2", "--nodes"}, ExitCode::usage);
  refuses(run_of({}), asked(0, 2), kUnknown, {"CPUS_PER_NODE", "--ranks"}, ExitCode::usage);
}

}  // namespace
}  // namespace cohort
