// Lines of text over TCP, within this machine.
#include "watch/line_socket.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "base/error.hpp"
#include "observe/clock.hpp"

namespace cohort::test {
namespace {

class LineSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto connecting = std::async(std::launch::async, [&] { return connect({listener_.endpoint()}); });
    server_ = welcome(listener_);
    client_ = connecting.get();
    ASSERT_TRUE(client_.is_open());
    ASSERT_TRUE(server_.is_open());
  }
  static LineSocket connect(const std::vector<Endpoint>& endpoints, double seconds = 5.0) {
    return LineSocket::connect(endpoints, "hello", "welcome", seconds);
  }
  // The next one that says hello, answered.
  static LineSocket welcome(LineListener& listener) {
    wait_for_input({listener.descriptor()}, 5.0);
    auto accepted = listener.accept();
    if (!accepted || receive(*accepted, 1) != std::vector<std::string>{"hello"} || !accepted->send("welcome")) return {};
    return std::move(*accepted);
  }
  // All lines until `count` have come, or 5 s are over.
  static std::vector<std::string> receive(LineSocket& socket, std::size_t count) {
    std::vector<std::string> lines;
    const double end = steady_seconds() + 5.0;
    while (lines.size() < count && socket.is_open() && steady_seconds() < end) {
      wait_for_input({socket.descriptor()}, 0.1);
      for (std::string& line : socket.receive()) lines.push_back(std::move(line));
    }
    return lines;
  }
  LineListener listener_{"127.0.0.1"};
  LineSocket client_, server_;
};

TEST_F(LineSocketTest, LinesBothWays) {
  EXPECT_TRUE(client_.send("one"));
  EXPECT_TRUE(client_.send(""));
  EXPECT_TRUE(client_.send("three"));
  EXPECT_EQ(receive(server_, 3), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_TRUE(server_.send("back"));
  EXPECT_EQ(receive(client_, 1), std::vector<std::string>{"back"});
}

// More than the kernel keeps: the rest is sent when the peer has read.
TEST_F(LineSocketTest, ALongLineArrivesWhole) {
  const std::string line(8 << 20, 'x');
  EXPECT_TRUE(client_.send(line));
  std::vector<std::string> lines;
  const double end = steady_seconds() + 10.0;
  while (lines.empty() && steady_seconds() < end) {
    client_.receive();  // sends what is left
    for (std::string& got : server_.receive()) lines.push_back(std::move(got));
  }
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], line);
}

TEST_F(LineSocketTest, WhatCameBeforeTheEndIsHandedOut) {
  client_.send("last words");
  client_.close();
  wait_for_input({server_.descriptor()}, 5.0);
  EXPECT_EQ(server_.receive(), std::vector<std::string>{"last words"});
  EXPECT_FALSE(server_.is_open());
  EXPECT_FALSE(server_.send("anybody?"));
}

TEST_F(LineSocketTest, NobodyListens) {
  EXPECT_FALSE(connect({{"127.0.0.1", 1}}).is_open());
  EXPECT_FALSE(connect({}).is_open());
}

// Nobody listens at the first, somebody else answers at the second, the third is the right one.
TEST_F(LineSocketTest, AnyEndpointThatWelcomes) {
  LineListener other("127.0.0.2");
  const double begin = steady_seconds();
  auto found = std::async(std::launch::async, [&] {
    return connect({{"127.0.0.1", 1}, other.endpoint(), listener_.endpoint()});
  });
  const LineSocket server = welcome(listener_);
  EXPECT_TRUE(found.get().is_open());
  EXPECT_LT(steady_seconds() - begin, 5.0);
}

TEST_F(LineSocketTest, WhoIsTurnedAwayAsksAgain) {
  auto found = std::async(std::launch::async, [&] { return connect({listener_.endpoint()}); });
  for (int refused = 0; refused < 3; ++refused) {
    wait_for_input({listener_.descriptor()}, 5.0);
    EXPECT_TRUE(listener_.accept());
  }
  const LineSocket server = welcome(listener_);
  EXPECT_TRUE(found.get().is_open());
}

TEST_F(LineSocketTest, NobodyWelcomes) {
  const double begin = steady_seconds();
  EXPECT_FALSE(connect({listener_.endpoint()}, 0.3).is_open());
  EXPECT_LT(steady_seconds() - begin, 3.0);
}

TEST_F(LineSocketTest, ALineThatIsTooLongEndsTheConnection) {
  server_.limit_line(100);
  client_.send(std::string(1000, 'x'));
  EXPECT_TRUE(receive(server_, 1).empty());
  EXPECT_FALSE(server_.is_open());
}

TEST_F(LineSocketTest, SixIsAsGoodAsFour) {
  std::optional<LineListener> listener;
  try {
    listener.emplace("::1");
  } catch (const Error&) {
    GTEST_SKIP() << "no IPv6 on this machine";
  }
  auto found = std::async(std::launch::async, [&] { return connect({listener->endpoint()}); });
  const LineSocket server = welcome(*listener);
  EXPECT_TRUE(found.get().is_open());
}

}  // namespace
}  // namespace cohort::test
