// Who is let in, who is turned away, and that nobody is waited for.
#include "watch/rendezvous.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <set>

#include "observe/clock.hpp"
#include "watch/addresses.hpp"
#include "watch/strangers.hpp"

namespace cohort::test {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

TEST(Hello, SurvivesTheWire) {
  const auto hello = hello_from(to_line({.rank = 3, .host = "node1", .process = 77}, kToken), kToken, 4);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->rank, 3);
  EXPECT_EQ(hello->host, "node1");
  EXPECT_EQ(hello->process, 77);
}

TEST(Hello, AnythingElseIsNone) {
  const std::string right = to_line({.rank = 3, .host = "node1", .process = 77}, kToken);
  EXPECT_FALSE(hello_from(right, kToken, 3)) << "a rank that the job does not have";
  EXPECT_FALSE(hello_from(right, "1123456789abcdef0123456789abcdef", 4)) << "another token";
  EXPECT_FALSE(hello_from(right, "", 4));
  EXPECT_FALSE(hello_from(to_line({.rank = 0, .host = "node1", .process = 77}, kToken), kToken, 4)) << "rank 0 is here";
  EXPECT_FALSE(hello_from(to_line({.rank = -1, .host = "node1", .process = 77}, kToken), kToken, 4));
  const auto with = [](const std::string& token, const std::string& rank, const std::string& host, const std::string& process) {
    return R"({"hello":)" + token + R"(,"rank":)" + rank + R"(,"host":)" + host + R"(,"process":)" + process + "}";
  };
  const std::string token = std::string("\"") + kToken + "\"";
  ASSERT_TRUE(hello_from(with(token, "1", "\"a\"", "5"), kToken, 4));
  for (const std::string& line :
       {std::string(), std::string("null"), std::string("[]"), std::string("{}"), std::string("{"), std::string("\xff\xfe"),
        std::string(4000, '['), with("12", "1", "\"a\"", "5"), with(token, "\"1\"", "\"a\"", "5"),
        with(token, "1.5", "\"a\"", "5"), with(token, "18446744073709551615", "\"a\"", "5"), with(token, "1", "{}", "5"),
        with(token, "1", "\"a\"", "[5]"), with("[" + token + "]", "1", "\"a\"", "5"), with(token, "null", "\"a\"", "5")}) {
    EXPECT_FALSE(hello_from(line, kToken, 4)) << line.substr(0, 80);
  }
}

class RendezvousTest : public ::testing::Test {
 protected:
  void SetUp() override { allow_many_files(); }

  std::future<bool> come(int rank) {
    return std::async(std::launch::async, [this, rank] {
      LineSocket socket =
          LineSocket::connect(door_.endpoints(), to_line({rank, "node1", rank}, door_.token()), Rendezvous::kWelcome, 10.0);
      const bool open = socket.is_open();
      sockets_[static_cast<std::size_t>(rank)] = std::move(socket);
      return open;
    });
  }
  // Lets in until `count` ranks have come, or for `seconds`; notes the longest call.
  void admit(std::size_t count, double seconds) {
    const double end = steady_seconds() + seconds;
    while (in_.size() < count && steady_seconds() < end) {
      wait_for_input(door_.descriptors(), 0.05);
      const double begin = steady_seconds();
      for (Rendezvous::Guest& guest : door_.admit(begin, [&](int rank) { return !in_.contains(rank); })) {
        EXPECT_TRUE(in_.insert(guest.hello.rank).second) << "rank " << guest.hello.rank << " is here already";
        guests_.push_back(std::move(guest.socket));
      }
      longest_ = std::max(longest_, steady_seconds() - begin);
    }
  }

  Rendezvous door_{{"127.0.0.1"}, 9};
  std::set<int> in_;
  std::vector<LineSocket> guests_, sockets_{9};
  double longest_ = 0.0;
};

TEST_F(RendezvousTest, RanksAreLetInOnce) {
  std::vector<std::future<bool>> ranks;
  for (int rank = 1; rank < 9; ++rank) ranks.push_back(come(rank));
  admit(8, 10.0);
  for (auto& rank : ranks) EXPECT_TRUE(rank.get());
  EXPECT_EQ(in_.size(), 8U);
  // A second hello for a rank that is in: turned away, and asked again until it gives up.
  auto again = std::async(std::launch::async, [&] {
    return LineSocket::connect(door_.endpoints(), to_line({3, "node1", 3}, door_.token()), Rendezvous::kWelcome, 1.0).is_open();
  });
  admit(9, 1.5);
  EXPECT_FALSE(again.get());
  EXPECT_EQ(in_.size(), 8U);
}

// The fault: each stranger who said nothing was waited for, for a second. Here 800 knock, those that are turned away again and
// again, and fill the list of pending ones before the ranks come.
TEST_F(RendezvousTest, StrangersDelayNobody) {
  const Strangers strangers(door_.endpoints().front(), 200);
  admit(1, 1.0);
  EXPECT_EQ(in_.size(), 0U);
  EXPECT_GT(strangers.knocks(), 800);
  EXPECT_LE(door_.descriptors().size(), Rendezvous::kMostPending + 1);
  std::vector<std::future<bool>> ranks;
  for (int rank = 1; rank < 9; ++rank) ranks.push_back(come(rank));
  admit(8, 10.0);
  for (auto& rank : ranks) EXPECT_TRUE(rank.get());
  EXPECT_EQ(in_.size(), 8U);
  EXPECT_LT(longest_, 0.5) << "seconds of a call; waiting for one stranger would take 1";
}

TEST_F(RendezvousTest, WhoSaysNothingIsDroppedInTheEnd) {
  const int idle = knock(door_.endpoints().front());
  wait_for_input(door_.descriptors(), 5.0);
  const auto nobody = [](int) { return true; };
  const double now = steady_seconds();
  door_.admit(now, nobody);
  EXPECT_EQ(door_.descriptors().size(), 2U);
  door_.admit(now + Rendezvous::kPatience - 0.1, nobody);
  EXPECT_EQ(door_.descriptors().size(), 2U);
  door_.admit(now + Rendezvous::kPatience + 0.1, nobody);
  EXPECT_EQ(door_.descriptors().size(), 1U);
  close(idle);
}

// At the same moment, so that it is not patience that ends it.
TEST_F(RendezvousTest, WhoSaysMoreThanAHelloIsDroppedAtOnce) {
  const int endless = knock(door_.endpoints().front());
  const std::string line(2 * Rendezvous::kLongestHello, 'x');
  ASSERT_EQ(send(endless, line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
  const double now = steady_seconds();
  bool dropped = false;
  for (int look = 0; look < 50 && !dropped; ++look) {
    wait_for_input(door_.descriptors(), 0.1);
    door_.admit(now, [](int) { return true; });
    char byte = 0;
    dropped = recv(endless, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  EXPECT_TRUE(dropped);
  EXPECT_EQ(door_.descriptors().size(), 1U);
  close(endless);
}

TEST(Addresses, TheLoopbackIsApartFromTheOthers) {
  const auto loopback = loopback_addresses(), others = own_addresses();
  EXPECT_NE(std::find(loopback.begin(), loopback.end(), "127.0.0.1"), loopback.end());
  for (const std::string& address : others) {
    EXPECT_EQ(std::find(loopback.begin(), loopback.end(), address), loopback.end()) << address;
    EXPECT_FALSE(address.starts_with("fe80")) << address << " holds on one link alone";
  }
  EXPECT_EQ(own_network(), own_network());
  EXPECT_FALSE(own_network().empty());
}

}  // namespace
}  // namespace cohort::test
