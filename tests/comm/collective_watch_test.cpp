// The watch over operations in flight, with operations and a clock of the test's own.
#include "comm/collective_watch.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using std::chrono::seconds;

struct FakeOperation : InFlight {
  FakeOperation(const char* operation, Count number)
      : InFlight({.operation = operation, .group = "dp", .rank = 1, .size = 2, .elements = 12'345, .number = number}) {}
  bool may_run() const override { return inputs_ready; }
  bool done() const override { return over; }
  bool inputs_ready = true;
  bool over = false;
};

class CollectiveWatchTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeOperation> add(const char* operation, Count number) {
    auto added = std::make_shared<FakeOperation>(operation, number);
    watch_.add(added);
    return added;
  }
  CollectiveWatch watch_;
  CollectiveWatch::Clock::time_point start_{};
};

TEST_F(CollectiveWatchTest, ForgetsWhatIsDone) {
  const auto first = add("all_reduce", 1);
  const auto second = add("all_reduce", 2);
  watch_.check(start_);
  EXPECT_EQ(watch_.oldest(), first.get());
  first->over = true;
  watch_.check(start_);
  EXPECT_EQ(watch_.oldest(), second.get());
  second->over = true;
  watch_.check(start_);
  EXPECT_TRUE(watch_.idle());
  watch_.check(start_ + seconds(10'000));  // nothing in flight is never late
}

TEST_F(CollectiveWatchTest, NamesTheOldestAfterTheTimeout) {
  watch_.set_timeout(30.0);
  add("all_reduce", 87);
  add("broadcast", 88);
  watch_.check(start_);
  watch_.check(start_ + seconds(29));
  EXPECT_ERROR(watch_.check(start_ + seconds(31)), ExitCode::lost,
               "all_reduce of 12345 fp32 on group 'dp' (number 87), rank 1 of 2: not finished after 30 s",
               "peer is lost or stuck");
}

// A long computation before the operation is nobody's fault, nor is the time that the operation before it took.
TEST_F(CollectiveWatchTest, CountsOnlyTheTimeInWhichPeersAreMissing) {
  watch_.set_timeout(30.0);
  const auto first = add("all_reduce", 1);
  const auto second = add("reduce_scatter", 2);
  first->inputs_ready = false;
  watch_.check(start_);
  watch_.check(start_ + seconds(1000));
  first->inputs_ready = true;
  watch_.check(start_ + seconds(1001));
  watch_.check(start_ + seconds(1025));
  first->over = true;
  watch_.check(start_ + seconds(1030));  // the second one's time begins
  watch_.check(start_ + seconds(1055));
  EXPECT_ERROR(watch_.check(start_ + seconds(1061)), ExitCode::lost, "reduce_scatter", "(number 2)");
  second->over = true;
  watch_.check(start_ + seconds(2000));
  EXPECT_TRUE(watch_.idle());
}

TEST_F(CollectiveWatchTest, SaysWhatWasStartedTogether) {
  const CollectiveFacts facts{.operation = "send", .group = "pp", .rank = 0, .size = 4, .elements = 8, .number = 3, .more = 2};
  EXPECT_EQ(facts.str(), "send of 8 fp32 on group 'pp' (number 3), rank 0 of 4, with 2 more started together");
}

TEST_F(CollectiveWatchTest, RefusesATimeoutThatIsNone) {
  EXPECT_ERROR(watch_.set_timeout(0.0), ExitCode::internal, "must be positive");
  EXPECT_ERROR(watch_.set_timeout(-1.0), ExitCode::internal, "must be positive");
  EXPECT_EQ(watch_.timeout(), CollectiveWatch::kDefaultSeconds);
}

}  // namespace
}  // namespace cohort::test
