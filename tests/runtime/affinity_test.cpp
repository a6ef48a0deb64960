// Core lists as text, and which bindings are warned of.
#include "runtime/affinity.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <numeric>

#include "support/expect_error.hpp"

namespace cohort {
namespace {

std::vector<int> range(int first, int last) {
  std::vector<int> cores(static_cast<std::size_t>(last - first + 1));
  std::iota(cores.begin(), cores.end(), first);
  return cores;
}

Binding on(int rank, int node, std::vector<int> cores, int online) {
  return {rank, node, "node" + std::to_string(node), std::move(cores), online};
}

void expect_quiet(const std::vector<Binding>& bindings) {
  const BindingFindings findings = check_bindings(bindings);
  EXPECT_TRUE(findings.warnings.empty()) << findings.warnings.front();
  EXPECT_TRUE(findings.notes.empty()) << findings.notes.front();
}

void expect_one_warning(const std::vector<Binding>& bindings, std::initializer_list<const char*> parts) {
  const BindingFindings findings = check_bindings(bindings);
  ASSERT_EQ(findings.warnings.size(), 1U);
  for (const char* part : parts) EXPECT_NE(findings.warnings[0].find(part), std::string::npos) << findings.warnings[0];
}

TEST(Cores, TextAndBack) {
  const std::vector<std::pair<std::vector<int>, std::string>> cases{
      {{}, "none"}, {{5}, "5"}, {{0, 1, 2, 3, 8}, "0-3,8"}, {{0, 2, 4}, "0,2,4"}, {{1, 2, 1023, 1024}, "1-2,1023-1024"}};
  for (const auto& [cores, text] : cases) {
    EXPECT_EQ(cores_text(cores), text);
    EXPECT_EQ(parse_cores(text), cores);
  }
  EXPECT_ERROR(parse_cores("1;2"), ExitCode::internal, "1;2");
}

// Binds this thread to one core and asks again.
TEST(Cores, AllowedCoresFollowTheKernel) {
  const std::vector<int> before = allowed_cores();
  ASSERT_FALSE(before.empty());
  cpu_set_t old_set;
  ASSERT_EQ(sched_getaffinity(0, sizeof old_set, &old_set), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(before.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(allowed_cores(), std::vector<int>{before.back()});
  ASSERT_EQ(sched_setaffinity(0, sizeof old_set, &old_set), 0);
  EXPECT_EQ(allowed_cores(), before);
  EXPECT_GE(online_cores(), 1);
}

TEST(Bindings, UnboundRanksOnEnoughCoresAreQuiet) { expect_quiet({on(0, 0, range(0, 3), 4), on(1, 0, range(0, 3), 4)}); }

TEST(Bindings, RanksWithCoresOfTheirOwnAreQuiet) { expect_quiet({on(0, 0, {0, 1}, 4), on(1, 0, {2, 3}, 4)}); }

TEST(Bindings, TheSameCoresOnDifferentNodesAreQuiet) { expect_quiet({on(0, 0, {0}, 4), on(1, 1, {0}, 4)}); }

TEST(Bindings, AllRanksOnOneCore) {
  expect_one_warning({on(0, 0, {0}, 4), on(1, 0, {0}, 4), on(2, 0, {0}, 4)},
                     {"ranks 0-2 of node0", "all bound to core 0", "--bind-to"});
}

TEST(Bindings, MoreRanksThanCoresIsOversubscribed) {
  expect_one_warning({on(0, 0, {0, 1}, 4), on(1, 0, {0, 1}, 4), on(2, 0, {0, 1}, 4)}, {"oversubscribed", "ranks 0-2", "2 cores"});
  // All that the machine has: nothing was bound, and nothing would help.
  for (const auto& bindings : {std::vector<Binding>{on(0, 0, {0, 1}, 2), on(1, 0, {0, 1}, 2), on(2, 0, {0, 1}, 2)},
                               std::vector<Binding>{on(0, 0, {0}, 1), on(1, 0, {0}, 1)}}) {
    const BindingFindings findings = check_bindings(bindings);
    EXPECT_TRUE(findings.warnings.empty());
    ASSERT_EQ(findings.notes.size(), 1U);
    EXPECT_NE(findings.notes[0].find("oversubscribed"), std::string::npos) << findings.notes[0];
  }
}

TEST(Bindings, PartialOverlap) {
  expect_one_warning({on(0, 0, {0, 1, 2}, 8), on(1, 0, {2, 3}, 8), on(2, 0, {4, 5}, 8)},
                     {"rank 0 (cores 0-2)", "rank 1 (cores 2-3)"});
  expect_one_warning({on(0, 1, {0, 1, 2}, 8), on(1, 1, {2, 3}, 8), on(2, 1, {3, 4}, 8)}, {"1 more pair", "node1"});
}

// Binding to sockets, mpirun's default from three ranks on, and containers: shared, with enough cores for each.
TEST(Bindings, SharedPartOfTheMachineIsNoted) {
  const BindingFindings findings =
      check_bindings({on(0, 0, range(0, 3), 8), on(1, 0, range(4, 7), 8), on(2, 0, range(0, 3), 8), on(3, 0, range(4, 7), 8)});
  EXPECT_TRUE(findings.warnings.empty());
  ASSERT_EQ(findings.notes.size(), 2U);
  EXPECT_NE(findings.notes[0].find("ranks 0,2 of node0 share cores 0-3"), std::string::npos) << findings.notes[0];
}

TEST(Bindings, AnUnboundRankBesideABoundOneIsNoOverlap) { expect_quiet({on(0, 0, range(0, 3), 4), on(1, 0, {1}, 4)}); }

}  // namespace
}  // namespace cohort
