#include "comm/trace.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "comm/mpi_communicator.hpp"

namespace cohort::test {
namespace {

void expect_totals(const CommTrace::Totals& totals, Count calls, Count elements, Bytes bytes) {
  EXPECT_EQ(totals.calls, calls);
  EXPECT_EQ(totals.elements, elements);
  EXPECT_EQ(totals.bytes, bytes);
}

// A limit of 7: the trace counts what was asked for, not the calls that it was cut into.
TEST(CommTrace, CountsCallsElementsAndBytesPerGroupAndOperation) {
  const auto world = make_world_communicator({.max_elements_per_call = 7});
  const auto dp = world->split(0, world->rank(), "dp");
  const int n = world->size();
  CommTrace trace;
  trace.attach(*world);
  trace.attach(*dp);
  std::vector<float> x(100);
  std::vector<float> big(static_cast<std::size_t>(10 * n));
  std::vector<bf16> half(100);
  world->all_reduce(x.data(), 100, DType::f32, ReduceOp::sum);
  world->all_reduce_async(half.data(), 50, DType::bf16, ReduceOp::sum).wait();
  dp->all_reduce(x.data(), 10, DType::f32, ReduceOp::avg);
  dp->all_gather(x.data(), big.data(), 10, DType::f32);
  dp->reduce_scatter(big.data(), x.data(), 10, DType::f32, ReduceOp::sum);
  dp->broadcast(x.data(), 3, DType::f32, 0);
  dp->barrier();

  expect_totals(trace.totals("world", "all_reduce"), 2, 150, 500);
  expect_totals(trace.totals("dp", "all_reduce"), 1, 10, 40);
  expect_totals(trace.totals("dp", "all_gather"), 1, 10 * n, 40 * n);
  expect_totals(trace.totals("dp", "reduce_scatter"), 1, 10 * n, 40 * n);
  expect_totals(trace.totals("dp", "broadcast"), 1, 3, 12);
  expect_totals(trace.totals("dp", "barrier"), 1, 0, 0);
  expect_totals(trace.totals("world", "barrier"), 0, 0, 0);
  expect_totals(trace.sum(), 7, 163 + 20 * n, 552 + 80 * n);
  EXPECT_NE(trace.str().find("all_gather"), std::string::npos) << trace.str();

  trace.reset();
  expect_totals(trace.sum(), 0, 0, 0);
  world->all_reduce(x.data(), 1, DType::f32, ReduceOp::sum);
  expect_totals(trace.sum(), 1, 1, 4);
}

TEST(CommTrace, RefusedCallsAreNotCounted) {
  const auto world = make_world_communicator();
  CommTrace trace;
  trace.attach(*world);
  EXPECT_ANY_THROW(world->all_reduce(nullptr, 5, DType::f32, ReduceOp::sum));
  EXPECT_EQ(trace.sum().calls, 0);
}

// So that the groups which a strategy makes for itself are counted, too.
TEST(CommTrace, FollowsGroupsThatAreSplitFromAnObservedOne) {
  const auto world = make_world_communicator();
  const auto before = world->split(0, world->rank(), "before");
  CommTrace trace;
  trace.attach(*world);
  const auto after = world->split(0, world->rank(), "after");
  float x = 0.0f;
  before->all_reduce(&x, 1, DType::f32, ReduceOp::sum);
  after->all_reduce(&x, 1, DType::f32, ReduceOp::sum);
  expect_totals(trace.totals("before", "all_reduce"), 0, 0, 0);
  expect_totals(trace.totals("after", "all_reduce"), 1, 1, 4);
}

// The observer refers to nothing of the trace: one that takes its place, in the same memory, counts what it was attached to.
TEST(CommTrace, TheCommunicatorMayOutliveTheTrace) {
  const auto world = make_world_communicator();
  std::optional<CommTrace> trace(std::in_place);
  trace->attach(*world);
  world->barrier();
  expect_totals(trace->sum(), 1, 0, 0);
  trace.emplace();
  world->barrier();
  expect_totals(trace->sum(), 0, 0, 0);
}

TEST(CommTrace, EventsSayWhichFormWasAskedFor) {
  const auto world = make_world_communicator();
  std::vector<bool> asynchronous;
  world->observe([&](const CommEvent& event) { asynchronous.push_back(event.asynchronous); });
  float x = 0.0f;
  world->all_reduce(&x, 1, DType::f32, ReduceOp::sum);
  world->all_reduce_async(&x, 1, DType::f32, ReduceOp::sum).wait();
  world->observe({});
  world->all_reduce(&x, 1, DType::f32, ReduceOp::sum);
  EXPECT_EQ(asynchronous, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace cohort::test
