// Lines of text over TCP, within this machine.
#include "watch/line_socket.hpp"

#include <gtest/gtest.h>

#include "observe/clock.hpp"

namespace cohort::test {
namespace {

class LineSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = LineSocket::connect({"127.0.0.1"}, listener_.port(), 5.0);
    ASSERT_TRUE(client_.is_open());
    wait_for_input({listener_.descriptor()}, 5.0);
    auto accepted = listener_.accept();
    ASSERT_TRUE(accepted);
    server_ = std::move(*accepted);
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
  LineListener listener_;
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
  const LineSocket none = LineSocket::connect({"127.0.0.1"}, 1, 5.0);
  EXPECT_FALSE(none.is_open());
}

// The first address does not answer, the second does.
TEST_F(LineSocketTest, AnyAddressThatAnswers) {
  const double begin = steady_seconds();
  const LineSocket found = LineSocket::connect({"127.0.0.254", "127.0.0.1"}, listener_.port(), 5.0);
  EXPECT_TRUE(found.is_open());
  EXPECT_LT(steady_seconds() - begin, 5.0);
}

TEST(OwnAddresses, TheLoopbackComesLast) {
  ASSERT_FALSE(own_addresses().empty());
  EXPECT_EQ(own_addresses().back(), "127.0.0.1");
}

}  // namespace
}  // namespace cohort::test
