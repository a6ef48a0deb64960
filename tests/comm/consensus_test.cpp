#include "comm/consensus.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/self_communicator.hpp"

namespace cohort::test {
namespace {

/// The error that fail_together() throws, if it throws SharedError.
std::optional<SharedError> outcome(Communicator& comm, const std::function<void()>& work) {
  try {
    fail_together(comm, "reading the token file", work);
  } catch (const SharedError& error) {
    return error;
  }
  return std::nullopt;
}

TEST(Consensus, NobodyFails) {
  const auto comm = make_world_communicator();
  int calls = 0;
  EXPECT_EQ(outcome(*comm, [&] { ++calls; }), std::nullopt);
  EXPECT_EQ(calls, 1);
}

TEST(Consensus, OneRankFailsAndAllSayWhichAndWhy) {
  const auto comm = make_world_communicator();
  for (int bad = 0; bad < comm->size(); ++bad) {
    const auto error = outcome(*comm, [&] {
      if (comm->rank() == bad) fail(ExitCode::data, "stories.tok: cannot be read");
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ExitCode::data);
    const std::string message = error->what();
    EXPECT_NE(message.find("reading the token file: stories.tok: cannot be read"), std::string::npos) << message;
    const bool named = message.find("world rank " + std::to_string(bad) + " on ") != std::string::npos;
    EXPECT_EQ(named, comm->size() > 1) << message;  // alone, a rank that fails is all that fail alike
  }
}

TEST(Consensus, AllFailAlikeAndNobodyIsNamed) {
  const auto comm = make_world_communicator();
  const auto error = outcome(*comm, [] { fail(ExitCode::checkpoint, "no checkpoint in runs/a"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::checkpoint);
  EXPECT_STREQ(error->what(), "reading the token file: no checkpoint in runs/a");
}

TEST(Consensus, AllFailDifferentlyAndTheLowestIsNamed) {
  const auto comm = make_world_communicator();
  if (comm->size() == 1) GTEST_SKIP() << "one rank fails like itself";
  const auto error = outcome(*comm, [&] { fail(static_cast<ExitCode>(5 + comm->rank()), "fault {}", comm->rank()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::data);  // 5: that of rank 0
  EXPECT_EQ(std::string(error->what()).find("world rank 0 on "), 0u) << error->what();
  EXPECT_NE(std::string(error->what()).find("fault 0"), std::string::npos) << error->what();
}

TEST(Consensus, OtherExceptionsMeanWhatTheyMeanInMain) {
  const auto comm = make_world_communicator();
  const auto memory = outcome(*comm, [] { throw std::bad_alloc(); });
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->code(), ExitCode::memory);
  const std::string long_name = "/" + std::string(300, 'x');
  const auto file = outcome(*comm, [&] { static_cast<void>(std::filesystem::exists(long_name)); });
  ASSERT_TRUE(file);
  EXPECT_EQ(file->code(), ExitCode::io);
  EXPECT_EQ(file->what(), "reading the token file: '" + long_name + "': File name too long");
  const auto odd = outcome(*comm, [] { throw 3; });
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->code(), ExitCode::internal);
}

TEST(Consensus, EmptyMessagesAndOneRankAlone) {
  const auto comm = make_world_communicator();
  const auto silent = outcome(*comm, [] { throw Error(ExitCode::io, ""); });
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->code(), ExitCode::io);
  const auto self = make_self_communicator("self");
  const auto alone = outcome(*self, [] { fail(ExitCode::io, "x"); });
  ASSERT_TRUE(alone);
  EXPECT_STREQ(alone->what(), "reading the token file: x");
}

TEST(Consensus, ADifferenceBetweenRanksIsNamed) {
  const auto comm = make_world_communicator();
  EXPECT_EQ(difference_between_ranks(*comm, "a = 1\nb = 2\n"), "");
  if (comm->size() == 1) GTEST_SKIP() << "one rank is like itself";
  const int last = comm->size() - 1;
  const std::string difference = difference_between_ranks(*comm, fmt::format("a = 1\nb = {}\n", comm->rank() == last ? 3 : 2));
  EXPECT_TRUE(difference.starts_with(fmt::format("rank {} on ", last))) << difference;
  EXPECT_NE(difference.find(" has 'b = 3' where rank 0 on "), std::string::npos) << difference;
  EXPECT_TRUE(difference.ends_with(" has 'b = 2'")) << difference;
  // Rank 0 is the odd one: all others are named, once.
  const std::string others = difference_between_ranks(*comm, comm->rank() == 0 ? "a = 1\nb = 2" : "a = 1");
  const std::string ranks = comm->size() == 2 ? "rank 1" : comm->size() == 3 ? "ranks 1 and 2" : "ranks 1-";
  EXPECT_TRUE(others.starts_with(ranks)) << others;
  EXPECT_NE(others.find(comm->size() == 2 ? " has nothing where" : " have nothing where"), std::string::npos) << others;
  EXPECT_EQ(others.find(';'), std::string::npos) << others;
}

}  // namespace
}  // namespace cohort::test
