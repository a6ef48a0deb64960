// Who is blamed for what. Each case is a job as it stood still; the names of the operations are those that people read.
#include "watch/diagnosis.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using Link = RankView::Link;

ReportedOperation collective(const std::string& kind, const std::string& group, std::vector<int> members, std::uint64_t number) {
  return {.text = kind + " on '" + group + "' (number " + std::to_string(number) + ")",
          .kind = kind,
          .group = group,
          .members = std::move(members),
          .number = number,
          .seconds = 9.0};
}

ReportedOperation message_from(int peer) {
  return {
      .text = "recv from rank " + std::to_string(peer), .kind = "recv of 4 fp32", .group = "pp", .peer = peer, .seconds = 9.0};
}

std::vector<RankView> job(int ranks) {
  std::vector<RankView> views(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    views[static_cast<std::size_t>(rank)].report = {
        .rank = rank, .host = "node1", .process = 100 + rank, .step = 14, .activity = "forward", .seconds_in_activity = 8.0};
  }
  return views;
}

void expect_says(const Diagnosis& diagnosis, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(diagnosis.text.find(part), std::string::npos) << part << " in\n" << diagnosis.text;
}

TEST(Diagnosis, TheOneThatTheOthersWaitFor) {
  auto ranks = job(4);
  for (const int rank : {0, 1, 3}) {
    ranks[static_cast<std::size_t>(rank)].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1, 2, 3}, 88)};
  }
  ranks[2].report.finished = collective("all_reduce of 9 fp32", "dp", {0, 1, 2, 3}, 87);
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits, std::vector<int>{2});
  expect_says(found, {"rank 2 of 4 on node1 (process 102)", "stuck at step 14: forward for 8 s", "number 87",
                      "ranks 0, 1 and 3 wait in all_reduce of 9 fp32 on 'dp' (number 88)"});
}

// Rank 0 waits for 1 in one group, 1 waits for 2 in another one, and 2 for nobody.
TEST(Diagnosis, WaitingForThoseWhoWait) {
  auto ranks = job(4);
  ranks[0].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1}, 5)};
  ranks[1].report.waiting = {collective("all_gather of 4 fp32", "tp", {1, 2}, 7)};
  ranks[3].report.waiting = {message_from(0)};
  EXPECT_EQ(diagnose(ranks, 8.0).culprits, std::vector<int>{2});
}

// Two groups have the same name and number: only their members tell them apart.
TEST(Diagnosis, GroupsOfOneName) {
  auto ranks = job(4);
  ranks[0].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 2}, 5)};
  ranks[1].report.waiting = {collective("all_reduce of 9 fp32", "dp", {1, 3}, 5)};
  ranks[2].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 2}, 5)};
  EXPECT_EQ(diagnose(ranks, 8.0).culprits, std::vector<int>{3});
}

TEST(Diagnosis, OutOfStepInTheSameGroup) {
  auto ranks = job(3);
  ranks[0].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1, 2}, 5)};
  ranks[1].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1, 2}, 5)};
  ranks[2].report.waiting = {collective("barrier of 0 u8", "dp", {0, 1, 2}, 5)};  // the same number: a mismatch
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_TRUE(found.culprits.empty());
  expect_says(found,
              {"no progress for 8 s", "different operations", "ranks 0 and 1 wait in all_reduce", "rank 2 waits in barrier"});
}

// On GPUs: rank 1's host hangs after it has put two operations into the GPU's queue, and never asks whether they have ended. Rank
// 0 has seen their end, and waits in the next two.
TEST(Diagnosis, WhoNeverAsksForTheEndOfWhatOthersHaveDone) {
  auto ranks = job(2);
  for (const std::uint64_t number : {7, 8}) {
    ranks[1].report.waiting.push_back(collective("all_reduce of 9 fp32", "dp", {0, 1}, number));
    ranks[0].report.waiting.push_back(collective("all_reduce of 9 fp32", "dp", {0, 1}, number + 2));
  }
  ranks[0].report.finished = collective("all_reduce of 9 fp32", "dp", {0, 1}, 8);
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits, std::vector<int>{1});
  expect_says(found, {"rank 1 of 2 on node1 (process 101)", "is stuck at step 14: forward for 8 s",
                      "no operation after all_reduce of 9 fp32 on 'dp' (number 8), which others have done",
                      "rank 0 waits in all_reduce of 9 fp32 on 'dp' (number 9)", "(number 10)"});
  EXPECT_EQ(found.text.find("rank 1 waits"), std::string::npos) << found.text;
}

TEST(Diagnosis, OperationsThatAreInFlightOnAllAreNotDone) {
  auto ranks = job(2);
  for (RankView& view : ranks) view.report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1}, 7)};
  ranks[0].report.waiting.push_back(collective("all_reduce of 9 fp32", "dp", {0, 1}, 8));
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits, std::vector<int>{1}) << "it has not called number 8";
  expect_says(found, {"it has not called what others wait in", "ranks 0 and 1 wait in all_reduce of 9 fp32 on 'dp' (number 7)"});
}

TEST(Diagnosis, ACircleOfMessages) {
  auto ranks = job(3);
  for (int rank = 0; rank < 3; ++rank) ranks[static_cast<std::size_t>(rank)].report.waiting = {message_from((rank + 1) % 3)};
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_TRUE(found.culprits.empty());
  expect_says(found, {"different operations", "rank 0 waits in recv from rank 1"});
}

TEST(Diagnosis, GoneComesBeforeSilentComesBeforeStuck) {
  auto ranks = job(4);
  ranks[0].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1, 2, 3}, 5)};
  ranks[2].link = Link::silent;
  ranks[2].seconds = 9.0;
  ranks[2].process_state = "stopped by a signal";
  Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits, std::vector<int>{2}) << "and not ranks 1 and 3, which rank 0 waits for as well";
  expect_says(found, {"rank 2 of 4", "silent for 9 s", "stopped by a signal", "step 14: forward"});
  ranks[3].link = Link::gone;
  found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits, std::vector<int>{3});
  expect_says(found, {"rank 3 of 4", "ended without a message"});
}

TEST(Diagnosis, NobodyWaitsAndNobodyMoves) {
  const Diagnosis found = diagnose(job(2), 8.0);
  EXPECT_TRUE(found.culprits.empty());
  expect_says(found, {"no rank waits for a missing one", "rank 0 at step 14: forward for 8 s", "rank 1 at step 14"});
}

TEST(Diagnosis, SaysHowManyMoreOperationsWait) {
  auto ranks = job(2);
  ranks[0].report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1}, 5)};
  expect_says(diagnose(ranks, 8.0), {"rank 0 waits in all_reduce of 9 fp32"});
  EXPECT_EQ(diagnose(ranks, 8.0).text.find("behind"), std::string::npos);
  ranks[0].report.more_waiting = 1000;
  expect_says(diagnose(ranks, 8.0),
              {"rank 0 waits in all_reduce of 9 fp32", "behind these up to 1000 more operations on one rank"});
}

// All are there, and the operation does not end.
TEST(Diagnosis, TheNetworkOrADevice) {
  auto ranks = job(2);
  for (RankView& view : ranks) view.report.waiting = {collective("all_reduce of 9 fp32", "dp", {0, 1}, 5)};
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_TRUE(found.culprits.empty());
  expect_says(found,
              {"Is a device, the network or a disk stuck?", "rank 1 at step 14: forward", "ranks 0 and 1 wait in all_reduce"});
}

TEST(Diagnosis, AThousandRanksFitAScreen) {
  auto ranks = job(1000);
  for (RankView& view : ranks) {
    if (view.report.rank >= 500) view.link = Link::silent;
  }
  const Diagnosis found = diagnose(ranks, 8.0);
  EXPECT_EQ(found.culprits.size(), 500U);
  expect_says(found, {"ranks 500-999"});
  EXPECT_LT(found.text.size(), 2000U);
}

TEST(Diagnosis, NamesOfRanks) {
  EXPECT_EQ(name_ranks({2}), "rank 2");
  EXPECT_EQ(name_ranks({2, 3}), "ranks 2 and 3");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 7}), "ranks 0-3 and 7");
  EXPECT_EQ(name_ranks({0, 2, 4, 5, 6}), "ranks 0, 2 and 4-6");
}

}  // namespace
}  // namespace cohort::test
