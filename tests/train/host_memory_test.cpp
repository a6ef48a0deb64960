// Memory of a node that its ranks offload to, counted for all of them together: nodes are made up here, of two ranks each.
#include "train/host_memory.hpp"

#include <gtest/gtest.h>

#include "comm/mpi_communicator.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "support/expect_error.hpp"
#include "train/estimate.hpp"

namespace cohort::test {
namespace {

RunConfig offloading(Count ranks, const std::vector<std::string>& overrides = {}) {
  RunConfig config = parse_run_file(
      "[model]\nkind = 'gpt2'\nlayers = 8\nwidth = 64\nheads = 4\ncontext = 32\nvocabulary = 100\nactivation_offload = true\n"
      "[data]\ntokens = 'none.h5'\n[device]\nkind = 'cuda'\n[train]\nmicro_batch = 4\naccumulation = 8\n",
      "test.toml", overrides);
  validate(config, ranks, {.cuda = true});
  return config;
}

class HostMemory : public ::testing::Test {
 protected:
  std::unique_ptr<Communicator> world_ = make_world_communicator();
  const RunConfig config_ = offloading(world_->size());

  NodeMemory node_of_two(Bytes available) const {
    const std::string name = "node" + std::to_string(world_->rank() / 2);
    return {name, name, {.total = 16 * kGiB, .available = available}};
  }
};

TEST_F(HostMemory, IsCountedForAllRanksOfANode) {
  const auto check = [&] { check_host_memory(config_, 6 * kGiB, *world_, node_of_two(10 * kGiB)); };
  if (world_->size() == 1) return check();  // alone it fits
  EXPECT_ERROR(check(), ExitCode::memory, "memory of node0: its 2 ranks need 12.0 GiB, and 10.0 GiB of 16.0 GiB is available",
               "train.micro_batch (now 4)");
  EXPECT_NO_THROW(check_host_memory(config_, 5 * kGiB, *world_, node_of_two(10 * kGiB)));
}

// All ranks hear of the node that has too little, whichever it is.
TEST_F(HostMemory, IsRefusedByAllRanksForOneNode) {
  const bool second = world_->rank() >= 2;
  const auto check = [&] { check_host_memory(config_, (second ? 6 : 1) * kGiB, *world_, node_of_two(5 * kGiB)); };
  if (world_->size() <= 2) return check();
  const std::string need = world_->size() == 3 ? "its rank needs 6.0 GiB" : "its 2 ranks need 12.0 GiB";
  EXPECT_ERROR(check(), ExitCode::memory, "memory of node1: ", need.c_str());
}

TEST_F(HostMemory, OfWhichNothingIsKnownIsNotChecked) {
  EXPECT_NO_THROW(check_host_memory(config_, 1000 * kGiB, *world_, node_of_two(0)));
}

// All ranks of this test share a node.
TEST_F(HostMemory, OfThisNodeIsSharedByItsRanks) {
  const NodeMemory here = this_node();
  EXPECT_NO_THROW(check_host_memory(config_, 0, *world_));
  const std::string ranks = world_->size() == 1 ? "its rank needs" : "its " + std::to_string(world_->size()) + " ranks need";
  EXPECT_ERROR(check_host_memory(config_, here.memory.total, *world_), ExitCode::memory, here.host.c_str(), ranks.c_str());
}

// On CPUs there is no other memory.
TEST_F(HostMemory, OfCpusHoldsAllOfARun) {
  const RunConfig config = offloading(2, {"device.kind=cpu", "model.activation_offload=false"});
  const Bytes rank = estimate_memory(config, 0).total();
  EXPECT_GT(rank, 0);
  EXPECT_EQ(host_memory_of_rank(config, count_step(config, 0)), rank);
  EXPECT_EQ(host_memory_of_node(config, count_stages(config), 2), 2 * rank);
  const std::string why = why_not_in_host_memory(config, 2 * rank, 2, {"here", "here", {.total = 2 * rank, .available = rank}});
  EXPECT_NE(why.find("the run does not fit into the memory of here: its 2 ranks need"), std::string::npos) << why;
  EXPECT_EQ(why_not_in_host_memory(config, 2 * rank, 2, {"here", "here", {.total = 2 * rank, .available = 2 * rank}}), "");
}

// Each stage as often as it has ranks on the node: of four stages the first has four micro-batches under way, the last one.
TEST_F(HostMemory, OfANodeIsThatOfTheStagesOnIt) {
  const RunConfig config = offloading(8, {"parallel.pp=4"});
  const std::vector<CountedStep> stages = count_stages(config);
  std::vector<Bytes> host;
  for (int stage = 0; stage < 4; ++stage) host.push_back(count_step(config, stage).host);
  EXPECT_GT(host[0], host[3]);
  EXPECT_EQ(host_memory_of_node(config, stages, 1), host[0]);
  EXPECT_EQ(host_memory_of_node(config, stages, 2), 2 * host[0]);
  const Bytes all = host_memory_of_node(config, stages, 8);  // the third stage stands behind the second, which it is like
  EXPECT_EQ(all, 2 * (host[0] + 2 * host[1] + host[3]));
  EXPECT_GT(host[1], host[2]) << "so that was more than is needed";
  EXPECT_EQ(host_memory_of_node(offloading(8, {"model.activation_offload=false"}),
                                count_stages(offloading(8, {"model.activation_offload=false"})), 8),
            0);
}

}  // namespace
}  // namespace cohort::test
