// The block: what tests/models does not show of it.
#include "nn/block.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "layer_test.hpp"
#include "ops/reference/pointwise.hpp"

namespace cohort::test {
namespace {

constexpr Count kSamples = 3, kTokens = 4, kBlockWidth = 8, kBlockRows = kSamples * kTokens;
constexpr double kProbability = 0.4;
const std::vector<Count> kSlots{6, 1, 4};

BlockSpec gpt2_block(double dropout) {
  return {.attention = {.width = kBlockWidth,
                        .heads = 2,
                        .kv_heads = 2,
                        .head_size = kBlockWidth / 2,
                        .tokens = kTokens,
                        .bias = true,
                        .dropout = dropout},
          .feed_forward = {.kind = FeedForwardKind::gelu, .width = kBlockWidth, .ffn_width = 16},
          .dropout = dropout};
}

struct BlockProblem {
  explicit BlockProblem(const BlockSpec& spec, int index = 0) : block(registry, "b", spec, index) { randomise(registry); }
  StepContext context() {
    StepContext context = context_with(&arena);
    context.training = true;
    context.seed = 11;
    context.step = 4;
    context.slots = slots.span();
    return context;
  }

  ParameterRegistry registry;
  Block block;
  Arena arena{"test", test_device()};
  ops::Indices<Count> slots{kSlots};
};

// What a branch that is the constant 1 adds to the residual stream: the factors of the dropout at its end.
Array end_factors(int index, const std::string& branch_with_one) {
  BlockProblem p(gpt2_block(kProbability), index);
  for (const char* last : {"attention.output", "feed_forward.down"}) {
    set_all(p.registry, std::string("b.") + last + ".weight", 0.0f);
    set_all(p.registry, std::string("b.") + last + ".bias", branch_with_one == last ? 1.0f : 0.0f);
  }
  const Tensor x = ops::filled({kBlockRows, kBlockWidth}, 0.0f), out = ops::filled({kBlockRows, kBlockWidth}, ops::kGarbage);
  p.block.forward(p.context(), p.arena, out, x, kSamples);
  return ops::values_of(out);
}

// The number of the dropout mask with these factors, as keyed by (seed, step, place, slot, element of the sample).
std::optional<std::uint32_t> place_of(const Array& factors) {
  for (std::uint32_t place = 0; place < 64; ++place) {
    if (ops::close(factors, ops::reference::dropout_factors(kProbability, 11, 4, place, kSlots, kTokens * kBlockWidth),
                   Array{1e-6}))
      return place;
  }
  return std::nullopt;
}

TEST(Block, EveryPlaceHasItsOwnDropoutMask) {
  std::set<std::uint32_t> places;
  for (const int index : {0, 1, 2, 3}) {
    for (const char* branch : {"attention.output", "feed_forward.down"}) {
      const auto place = place_of(end_factors(index, branch));
      ASSERT_TRUE(place.has_value()) << "block " << index << ", " << branch << ": no mask of the keys that are promised";
      EXPECT_TRUE(places.insert(*place).second) << "block " << index << ", " << branch << " shares place " << *place;
    }
  }
}

// Over many steps, dropout of a linear path leaves the mean as it is. The attention branch is linear in its softmax weights and
// in its end, so both dropouts are in it; the feed-forward branch is switched off. A mean over n steps of factors with variance
// p / (1 - p) = 0.67 each (twice: 1.8 together) is off by sqrt(1.8 / n) of the branch's size, 0.02; five of these.
TEST(Block, DropoutPreservesTheMean) {
  constexpr int kSteps = 4000;
  BlockProblem p(gpt2_block(kProbability));
  set_all(p.registry, "b.feed_forward.down.weight", 0.0f);
  set_all(p.registry, "b.feed_forward.down.bias", 0.0f);
  const Tensor x = random_tensor({kBlockRows, kBlockWidth}, 1), out = ops::filled({kBlockRows, kBlockWidth}, ops::kGarbage);
  StepContext context = p.context();
  Array mean(static_cast<std::size_t>(kBlockRows * kBlockWidth), 0.0);
  for (int step = 0; step < kSteps; ++step) {
    const Arena::Scope scope(p.arena);
    context.step = static_cast<std::uint32_t>(step);
    p.block.forward(context, p.arena, out, x, kSamples);
    const Array values = ops::values_of(out);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += values[i] / kSteps;
  }
  context.training = false;
  p.block.forward(context, p.arena, out, x, kSamples);
  double branch = 0.0;
  const Array expected = ops::values_of(out), before = ops::values_of(x);
  for (std::size_t i = 0; i < expected.size(); ++i) branch = std::max(branch, std::abs(expected[i] - before[i]));
  EXPECT_TRUE(ops::close(mean, expected, Array{5.0 * std::sqrt(1.8 / kSteps) * branch}));
  EXPECT_GT(branch, 0.1);
}

// With both branches switched off the block is the identity, forward and backward.
TEST(Block, IsTheIdentityWithoutItsBranches) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    BlockSpec spec = gpt2_block(0.0);
    spec.recompute = recompute;
    BlockProblem p(spec);
    for (const char* last : {"b.attention.output", "b.feed_forward.down"}) {
      set_all(p.registry, std::string(last) + ".weight", 0.0f);
      set_all(p.registry, std::string(last) + ".bias", 0.0f);
    }
    const Tensor x = random_tensor({kBlockRows, kBlockWidth}, 1), out = ops::filled({kBlockRows, kBlockWidth}, ops::kGarbage);
    const Tensor dx = random_tensor({kBlockRows, kBlockWidth}, 2), dout = ops::copy_of(dx);
    const auto saved = p.block.forward(p.context(), p.arena, out, x, kSamples);
    EXPECT_TRUE(ops::same_bits(out, x));
    EXPECT_EQ(saved.inside.has_value(), recompute == Recompute::none);
    EXPECT_EQ(saved.attended.has_value(), recompute == Recompute::selective);
    p.block.backward(p.context(), dx, saved);
    EXPECT_TRUE(ops::same_bits(dx, dout));
  }
}

// What a pass of a block with random weights gives, and the gradients that it adds.
struct PassOfBlock {
  Tensor out, dx, gradients;
};

PassOfBlock pass_of(const BlockSpec& spec) {
  BlockProblem p(spec);
  const Tensor x = random_tensor({kBlockRows, kBlockWidth}, 1);
  PassOfBlock pass{ops::filled(x.shape(), ops::kGarbage), random_tensor(x.shape(), 2), {}};
  const auto saved = p.block.forward(p.context(), p.arena, pass.out, x, kSamples);
  {  // as between the passes of a block in a model: what was not kept is overwritten
    const Arena::Scope others(p.arena);
    const Shape rest{16 * 1024};
    p.arena.take(rest).copy_from(ops::filled(rest, ops::kGarbage));
  }
  p.block.backward(p.context(), pass.dx, saved);
  pass.gradients = ops::copy_of(p.registry.flat_gradients());
  return pass;
}

// What is computed again has the bits of what would have been kept, in each branch and with the dropout at its end: so has every
// gradient. Weights are random, since of zeros much that is wrong comes out right.
TEST(Block, ComputesAgainWhatForwardDidNotKeep) {
  for (const FeedForwardKind kind : {FeedForwardKind::gelu, FeedForwardKind::swiglu}) {
    for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
      BlockSpec spec = gpt2_block(kProbability);
      spec.norm = norm;
      spec.feed_forward.kind = kind;
      const PassOfBlock kept = pass_of(spec);
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        spec.recompute = recompute;
        const PassOfBlock again = pass_of(spec);
        EXPECT_TRUE(ops::same_bits(again.out, kept.out));
        EXPECT_TRUE(ops::same_bits(again.dx, kept.dx));
        EXPECT_TRUE(ops::same_bits(again.gradients, kept.gradients));
      }
    }
  }
}

TEST(Block, LeavesItsInputAlone) {
  BlockProblem p(gpt2_block(kProbability));
  const Tensor x = random_tensor({kBlockRows, kBlockWidth}, 1), before = ops::copy_of(x);
  const Tensor out = ops::filled({kBlockRows, kBlockWidth}, ops::kGarbage), dx = random_tensor({kBlockRows, kBlockWidth}, 2);
  const auto saved = p.block.forward(p.context(), p.arena, out, x, kSamples);
  p.block.backward(p.context(), dx, saved);
  EXPECT_TRUE(ops::same_bits(x, before));
}

TEST(Block, ListsEveryParameterOnce) {
  BlockProblem p(gpt2_block(0.0));
  const auto parameters = p.block.parameters();
  EXPECT_EQ(std::set<Parameter*>(parameters.begin(), parameters.end()).size(), parameters.size());
  EXPECT_EQ(parameters.size(), p.registry.all().size());
}

}  // namespace
}  // namespace cohort::test
