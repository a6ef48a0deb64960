// RUN/stop and RUN/save, as rank 0 sees them.
#include "rundir/requests.hpp"

#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

double now = 0.0;
double test_clock() { return now; }

using Asked = std::array<std::int64_t, kRunRequests>;

TEST(RequestFiles, AreLookedForOnceASecondByRank0) {
  const test::TemporaryFolder folder;
  Requests root(folder.path(), 0, test_clock), other(folder.path(), 1, test_clock);
  EXPECT_EQ(root.poll(), (Asked{0, 0, 0}));
  std::ofstream(folder / "stop") << "";
  std::ofstream(folder / "save") << "";
  now += 0.9;
  EXPECT_EQ(root.poll(), (Asked{0, 0, 0}));
  now += 0.2;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 1}));
  EXPECT_EQ(other.poll(), (Asked{0, 0, 0}));
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 0})) << "a save counts once";
  EXPECT_TRUE(root.save_done());
  EXPECT_FALSE(fs::exists(folder / "save"));
  EXPECT_TRUE(fs::exists(folder / "stop"));
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 0}));
  std::ofstream(folder / "save") << "";
  now += 2.0;
  EXPECT_EQ(root.poll(), (Asked{0, 1, 1})) << "and again when it is asked for again";
  EXPECT_TRUE(root.save_done() && root.save_done()) << "there need not be a file";
}

}  // namespace
}  // namespace cohort
