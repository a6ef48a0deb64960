// Who owns which matrix: balanced by cost, the same for everybody, a round at a time.
#include "optim/matrix_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace cohort {
namespace {

HeldMatrix matrix(const std::string& name, Count rows, Count columns, double cost, std::vector<MatrixPart> parts) {
  return {.name = name,
          .rows = rows,
          .columns = columns,
          .cost = cost,
          .group = 0,
          .boxes = {Box::whole({rows, columns})},
          .parts = std::move(parts)};
}

// As many blocks of a transformer: query, key, value, output, up and down.
std::vector<HeldMatrix> blocks(int count, Count width) {
  std::vector<HeldMatrix> all;
  const auto cost = [](double m, double n) { return 4 * m * m * n + 2 * m * m * m; };
  const auto w = static_cast<double>(width);
  for (int block = 0; block < count; ++block) {
    for (int i = 0; i < 4; ++i) all.push_back(matrix("square", width, width, cost(w, w), {}));
    for (int i = 0; i < 2; ++i) all.push_back(matrix("long", 4 * width, width, cost(w, 4 * w), {}));
  }
  return all;
}

// Graham 1969: longest first is within 4/3 - 1/(3 n) of the best, which is no less than the mean and the costliest matrix.
TEST(MatrixPlan, BalancesTheCost) {
  for (const int holders : {1, 2, 3, 4, 7, 16}) {
    for (const int count : {1, 4, 12}) {
      const MatrixPlan plan(blocks(count, 96), holders);
      std::vector<double> costs;
      for (int owner = 0; owner < holders; ++owner) costs.push_back(plan.cost_of(owner));
      const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
      double costliest = 0.0, sum = 0.0;
      for (const HeldMatrix& one : plan.matrices()) {
        costliest = std::max(costliest, one.cost);
        sum += one.cost;
      }
      EXPECT_DOUBLE_EQ(all, sum) << "each matrix has one owner";
      const double best = std::max(sum / holders, costliest);
      EXPECT_LE(*std::max_element(costs.begin(), costs.end()), best * (4.0 / 3.0))
          << holders << " holders, " << count << " blocks";
    }
  }
}

TEST(MatrixPlan, IsTheSameForEverybodyAndDoneInRounds) {
  const MatrixPlan one(blocks(4, 64), 3), other(blocks(4, 64), 3);
  std::set<std::size_t> done;
  for (const auto& round : one.rounds()) {
    std::set<int> owners;
    for (const std::size_t m : round) {
      EXPECT_TRUE(done.insert(m).second);
      EXPECT_TRUE(owners.insert(one.owner(m)).second) << "one matrix of each owner at a time";
    }
  }
  EXPECT_EQ(done.size(), one.matrices().size());
  for (std::size_t m = 0; m < done.size(); ++m) EXPECT_EQ(one.owner(m), other.owner(m));
}

TEST(MatrixPlan, CountsWhatMovesAndWhatIsKept) {
  // The first is held whole by holder 0, which becomes its owner; the second by both in parts, and holder 1 owns it.
  const MatrixPlan plan({matrix("a", 4, 4, 2.0, {{0, 0, 0, 16}}), matrix("b", 4, 3, 1.0, {{0, 0, 0, 5}, {1, 0, 5, 7}})}, 2);
  EXPECT_EQ(plan.owner(0), 0);
  EXPECT_EQ(plan.owner(1), 1);
  EXPECT_TRUE(plan.holds_whole(0, 0));
  EXPECT_FALSE(plan.holds_whole(1, 1));
  const auto buffers = plan.buffers();
  EXPECT_EQ(buffers[0].own, 5) << "what it holds whole and owns needs none";
  EXPECT_EQ(buffers[0].incoming, 0);
  EXPECT_EQ(buffers[0].matrix, 16);
  EXPECT_EQ(buffers[1].own, 7);
  EXPECT_EQ(buffers[1].incoming, 5);
  EXPECT_EQ(buffers[1].matrix, 12);
  EXPECT_EQ(plan.sent_elements(), (std::vector<Count>{5, 5}));
}

// Key/value heads that two tensor-parallel ranks hold alike: one gives them, both get the update.
TEST(MatrixPlan, EqualBoxesAreGivenOnce) {
  HeldMatrix shared = matrix("key", 4, 4, 1.0, {{0, 0, 0, 8}, {1, 1, 0, 8}, {2, 2, 0, 8}, {3, 3, 0, 8}});
  const Box first = Box::range({4, 4}, 0, 0, 2), second = Box::range({4, 4}, 0, 2, 4);
  shared.boxes = {first, first, second, second};
  EXPECT_TRUE(shared.counts(shared.parts[0]));
  EXPECT_FALSE(shared.counts(shared.parts[1]));
  EXPECT_TRUE(shared.counts(shared.parts[2]));
  EXPECT_FALSE(shared.counts(shared.parts[3]));
  const MatrixPlan plan({shared}, 4);
  EXPECT_EQ(plan.sent_elements(), (std::vector<Count>{24, 0, 8, 0}));
}

}  // namespace
}  // namespace cohort
