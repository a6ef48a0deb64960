// The network of ranks that are threads: what it carries, counts and refuses.
#include "labs/grading/ranks.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "labs/grading/grading.hpp"

namespace cohort::labs {
namespace {

using lab::Link;

std::string rejection(int ranks, const std::function<void(Link&)>& work) {
  try {
    run_ranks(ranks, work);
  } catch (const Rejected& error) {
    return error.what();
  }
  return "";
}

TEST(Ranks, CarryMessagesInOrder) {
  std::vector<float> seen(3);
  run_ranks(2, [&](Link& link) {
    for (int i = 0; i < 3; ++i) {
      float value = static_cast<float>(i + 1);
      if (link.rank() == 0) link.send(1, {&value, 1});
      if (link.rank() == 1) link.receive(0, {&seen[static_cast<std::size_t>(i)], 1});
    }
  });
  EXPECT_EQ(seen, (std::vector<float>{1, 2, 3}));
}

// A chain over four ranks: three messages in turn. A ring of exchanges: one, whatever the number of ranks.
TEST(Ranks, CountWhatWaitsForEachOther) {
  const Traffic chain = run_ranks(4, [](Link& link) {
    std::vector<float> data(10);
    if (link.rank() > 0) link.receive(link.rank() - 1, data);
    if (link.rank() < 3) link.send(link.rank() + 1, data);
  });
  EXPECT_EQ(chain.messages_in_turn, 3);
  EXPECT_EQ(chain.elements_in_turn, 30);
  EXPECT_EQ(chain.elements_sent, (std::vector<Count>{10, 10, 10, 0}));
  for (const int ranks : {2, 3, 7}) {
    const Traffic ring = run_ranks(ranks, [&](Link& link) {
      std::vector<float> out(5), in(5);
      link.exchange((link.rank() + 1) % ranks, out, (link.rank() + ranks - 1) % ranks, in);
    });
    EXPECT_EQ(ring.messages_in_turn, 1) << ranks;
    EXPECT_EQ(ring.elements_in_turn, 5) << ranks;
    EXPECT_EQ(std::accumulate(ring.messages_sent.begin(), ring.messages_sent.end(), Count{0}), ranks);
  }
}

TEST(Ranks, ADeadlockIsNamedAtOnce) {
  const std::string words = rejection(3, [](Link& link) {
    std::vector<float> data(2);
    link.send((link.rank() + 1) % 3, data);
    link.receive((link.rank() + 2) % 3, data);
  });
  EXPECT_NE(words.find("rank 0 waits to send to rank 1; rank 1 waits to send to rank 2; rank 2 waits to send to rank 0"),
            std::string::npos)
      << words;
  const std::string gone = rejection(2, [](Link& link) {
    float value = 0;
    if (link.rank() == 1) link.receive(0, {&value, 1});
  });
  EXPECT_NE(gone.find("rank 1 waits to receive from rank 0, which has returned"), std::string::npos) << gone;
}

TEST(Ranks, RefuseWhatNoNetworkCarries) {
  const auto sends_to = [](int to) {
    return [to](Link& link) {
      float value = 0;
      if (link.rank() == 0) link.send(to, {&value, 1});
    };
  };
  EXPECT_NE(rejection(2, sends_to(2)).find("wants to send to rank 2"), std::string::npos);
  EXPECT_NE(rejection(2, sends_to(-1)).find("rank -1"), std::string::npos);
  EXPECT_NE(rejection(2, sends_to(0)).find("itself"), std::string::npos);
  const std::string lengths = rejection(2, [](Link& link) {
    std::vector<float> data(3);
    if (link.rank() == 0) link.send(1, data);
    if (link.rank() == 1) link.receive(0, std::span(data).first(2));
  });
  EXPECT_NE(lengths.find("rank 0 sends 3 elements to rank 1, which wants to receive 2"), std::string::npos) << lengths;
}

// The others are let go, and what was thrown comes out.
TEST(Ranks, WhatARankThrowsComesOut) {
  EXPECT_THROW(run_ranks(3,
                         [](Link& link) {
                           float value = 0;
                           if (link.rank() == 1) lab::not_written();
                           link.receive(1, {&value, 1});
                         }),
               lab::NotWritten);
}

}  // namespace
}  // namespace cohort::labs
