// Slurm's lists of nodes.
#include "runtime/node_list.hpp"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Names = std::vector<std::string>;

TEST(NodeList, Expands) {
  EXPECT_EQ(expand_node_list("node1"), (Names{"node1"}));
  EXPECT_EQ(expand_node_list("node[1-3,7],login1"), (Names{"node1", "node2", "node3", "node7", "login1"}));
  EXPECT_EQ(expand_node_list("gpu[08-10]"), (Names{"gpu08", "gpu09", "gpu10"}));
  EXPECT_EQ(expand_node_list("a[1],b-2"), (Names{"a1", "b-2"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[1-2]x"), (Names{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
}

TEST(NodeList, WhatIsNoneIsNone) {
  for (const char* text : {"", ",", "a,", "node[1-", "node[2-1]", "node[x]", "node[]", "node[1-3", "node]1[", "n[1-2000000]",
                           "n[1-2000][1-2000]", "n[99999999999]"}) {
    EXPECT_FALSE(expand_node_list(text)) << text;
  }
}

}  // namespace
}  // namespace cohort
