// The parts of a preflight that need no other ranks: outliers, pairs of nodes, the disk, ports, and JSON there and back.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "preflight/disk.hpp"
#include "preflight/job.hpp"
#include "preflight/measure_nodes.hpp"
#include "preflight/measurements_json.hpp"
#include "preflight/network.hpp"
#include "preflight/node_facts.hpp"
#include "preflight/outliers.hpp"
#include "support/temporary_folder.hpp"

namespace cohort::preflight::test {
namespace {

using cohort::test::TemporaryFolder;

TEST(Outliers, AreHeldAgainstTheOthers) {
  EXPECT_DOUBLE_EQ(median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_DOUBLE_EQ(median({4.0, 1.0, 2.0, 3.0}), 2.5);
  const auto of_two = low_outliers({{"a", 4.0}, {"b", 10.0}}, 0.5);
  ASSERT_EQ(of_two.size(), 1u);
  EXPECT_EQ(of_two[0].index, 0u);
  EXPECT_DOUBLE_EQ(of_two[0].others_median, 10.0);
  EXPECT_TRUE(low_outliers({{"a", 0.0}, {"b", 10.0}, {"c", 9.0}}, 0.5).empty());  // 0: not measured
  EXPECT_TRUE(low_outliers({{"a", 1.0}}, 0.5).empty());
  EXPECT_EQ(high_outliers({{"a", 1.0}, {"b", 5.0}, {"c", 1.1}}, 2.0).at(0).index, 1u);
}

TEST(Outliers, TheMostCommonTextMayBeNone) {
  EXPECT_EQ(most_common({"", "", "x"}), "");
  EXPECT_EQ(most_common({"", "x", "x"}), "x");
  EXPECT_EQ(most_common({"a", "b"}), "a");
}

TEST(Pairs, AllMeetOnceAndNobodyTwiceInARound) {
  for (const int n : {1, 2, 3, 4, 5, 8, 13}) {
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds_of_pairs(n, 100)) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_LT(b, n);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << "of " << n;
        EXPECT_TRUE(met.insert({a, b}).second) << a << " and " << b << " of " << n;
      }
    }
    EXPECT_EQ(static_cast<int>(met.size()), n * (n - 1) / 2);
    EXPECT_LE(rounds_of_pairs(n, 2).size(), 2u);
  }
}

// The middle of the round trip is the best guess of when the other looked at its clock.
TEST(ClockOffsets, AreOfTheMiddleOfTheRoundTrip) {
  const ClockOffset ahead = offset_from(1000, 501'100, 1200);
  EXPECT_NEAR(ahead.offset, 500e-6, 1e-12);
  EXPECT_NEAR(ahead.error, 100e-9, 1e-12);
  EXPECT_NEAR(offset_from(2000, 2100, 2400).offset, -100e-9, 1e-12);
}

TEST(DiskSpeed, IsMeasuredAndNothingStays) {
  const TemporaryFolder folder;
  const Disk disk = measure_disk(folder.path().string(), "scratch", 8 * kMiB, 5.0);
  EXPECT_EQ(disk.problem, "");
  EXPECT_GT(disk.write, 1e5);
  EXPECT_GT(disk.read, 1e5);
  EXPECT_GT(disk.free, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DiskSpeed, AFolderThatIsNotThere) {
  const Disk disk = measure_disk("/nowhere/at/all", "scratch", kMiB, 1.0);
  EXPECT_NE(disk.problem.find("'/nowhere/at/all': No such file"), std::string::npos) << disk.problem;
}

TEST(Ports, OnlyActiveOnesCount) {
  const TemporaryFolder folder;
  const auto make_port = [&](const std::string& device, const std::string& state) {
    const auto port = folder.path() / device / "ports" / "1";
    std::filesystem::create_directories(port);
    std::ofstream(port / "state") << state << '\n';
    std::ofstream(port / "rate") << "400 Gb/sec (4X NDR)\n";
  };
  make_port("mlx5_1", "4: ACTIVE");
  make_port("mlx5_0", "1: DOWN");
  EXPECT_EQ(active_ports(folder.path().string()), std::vector<std::string>{"mlx5_1 port 1, 400 Gb/sec (4X NDR)"});
  EXPECT_TRUE(active_ports("/nowhere/at/all").empty());
}

TEST(MeasurementsJson, ThereAndBack) {
  Measurements job = healthy_job(2, 2);
  job.nodes[0].gpus[1].slowed = {"heat"};
  job.nodes[0].gpus[0].celsius.reset();
  job.nodes[0].transports = "UCX_TLS=rc \"quoted\"";
  for (const Node& node : job.nodes) EXPECT_EQ(to_json(node_from_json(to_json(node))), to_json(node));
  Node bare;
  EXPECT_EQ(to_json(node_from_json(to_json(bare))), to_json(bare));
  EXPECT_TRUE(to_json(bare)["disk"].is_null());
}

TEST(Merge, GpusOfAllRanksJoinTheirNode) {
  const Node whole = healthy_node(0, 2);
  Node first = whole;
  first.gpus = {whole.gpus[1]};
  first.pairs = {whole.pairs[1]};
  Node second;  // what a rank sends that is not the first of its node
  second.number = 0;
  second.gpus = {whole.gpus[0]};
  second.pairs = {whole.pairs[0]};
  const std::vector<Node> merged = merge({first, healthy_node(1, 2), second});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(to_json(merged[0]), to_json(whole));
  EXPECT_EQ(to_json(merged[1]), to_json(healthy_node(1, 2)));
}

}  // namespace
}  // namespace cohort::preflight::test
