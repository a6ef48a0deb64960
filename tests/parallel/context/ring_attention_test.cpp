// Ring attention against the double-precision reference of whole attention, forward and backward, at any number of ranks.
#include "parallel/context/ring_attention.hpp"

#include <gtest/gtest.h>

#include <map>

#include "comm/mpi_communicator.hpp"
#include "mesh/mesh.hpp"
#include "nn/context.hpp"
#include "ops/attention_problem.hpp"
#include "parallel/context/message_faults.hpp"
#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

using ops::Array;
using ops::AttentionProblem;
using ops::AttentionShape;
using ops::Input;

// The rows [.., T / N, columns] of this rank, of values [.., T, columns].
Array own_rows(const RingAttention& ring, Input whole, Count columns) {
  Array part;
  const Count sample = ring.split().tokens() * columns;
  for (Count first = 0; first < static_cast<Count>(whole.size()); first += sample) {
    for (const ops::TokenRun& run : ring.rows().runs) {
      const Input rows = whole.subspan(first + run.position * columns, run.count * columns);
      part.insert(part.end(), rows.begin(), rows.end());
    }
  }
  return part;
}

AttentionShape shape_here(const RingAttention& ring, AttentionShape shape) {
  shape.tokens = ring.split().tokens_of_rank();
  return shape;
}

// Fills the memory that the arena hands out next: what never arrives there must not be found from the pass before.
void soil_with_garbage(Arena& arena) {
  const Arena::Scope scope(arena);
  const Shape all{Count{1} << 18};
  arena.take(all).copy_from(ops::filled(all, ops::kGarbage));
}

struct Results {
  Tensor out, lse, dqkv;
};

class Ring : public ::testing::Test {
 protected:
  // Forward and backward of this rank's part; backward from the reference's out and lse.
  Results run(const RingAttention& ring, const AttentionProblem& p, DType dtype = DType::f32) const {
    const AttentionShape s = shape_here(ring, p.shape);
    Arena arena("test", test_device());
    const StepContext context{.exec = ops::test_exec(), .dtype = dtype, .activations = &arena};
    const Shape packed{s.batch, s.tokens, s.packed_width()}, heads{s.batch, s.tokens, s.width()};
    const auto part = [&](Input whole, const Shape& shape) {
      return ops::tensor_of_type(dtype, own_rows(ring, whole, shape.columns()), shape);
    };
    const Tensor qkv = part(p.qkv, packed);
    const Results results{Tensor::zeros("out", heads, dtype, test_device()),
                          ops::filled({s.batch, s.heads, s.tokens}, ops::kGarbage),
                          Tensor::zeros("dqkv", packed, dtype, test_device())};
    soil_with_garbage(arena);
    ring.attention_forward(context, s, results.out, results.lse, qkv, p.key);
    soil_with_garbage(arena);
    const Tensor lse = ops::tensor_of(own_rows(ring, p.forward.lse, 1), results.lse.shape());
    ring.attention_backward(context, s, results.dqkv, part(p.dout, heads), part(p.forward.out, heads), lse, qkv, p.key);
    return results;
  }

  // Each of the blocks that a query's result is merged from adds at most as much to the error as whole attention has
  // (tests/ops/partial_attention_test.cpp); a query meets two chunks at most for each rank.
  Array tolerance(const RingAttention& ring, Array whole, Count columns) const {
    for (double& value : whole) value *= 1.0 + 2.0 * world_->size();
    return own_rows(ring, whole, columns);
  }

  ::testing::AssertionResult right(const RingAttention& ring, const AttentionProblem& p, const Results& results) const {
    const Count width = p.shape.width(), packed = p.shape.packed_width();
    if (auto out = ops::close(results.out, own_rows(ring, p.forward.out, width), tolerance(ring, p.out_tolerance(), width)); !out)
      return out << " (out)";
    const double lse_tolerance = p.lse_tolerance() * (1.0 + 2.0 * world_->size());
    if (auto lse = ops::close(results.lse, own_rows(ring, p.forward.lse, 1), lse_tolerance); !lse) return lse << " (lse)";
    auto dqkv =
        ops::close(results.dqkv, own_rows(ring, p.expected_gradient(), packed), tolerance(ring, p.gradient_tolerance(), packed));
    return dqkv ? dqkv : dqkv << " (dqkv)";
  }

  // A fault may hit some ranks alone; all must know whether any has seen it.
  bool accepted_by_all(bool accepted) const {
    return all_reduce_value<std::int32_t>(*world_, accepted ? 0 : 1, ReduceOp::max) == 0;
  }

  std::unique_ptr<Communicator> world_ = make_world_communicator();
  Mesh mesh_{*world_, MeshShape(1, 1, world_->size(), 1), test_device(), ranks_share_devices(world_->size())};
  Communicator& group_ = mesh_.axis(Axis::cp);
};

TEST_F(Ring, IsWholeAttention) {
  const std::vector<AttentionShape> shapes{
      {2, 24, 4, 2, 8}, {1, 24, 3, 3, 16}, {3, 48, 4, 1, 4}, {1, 240, 2, 1, 32},  // chunks of several tiles on one rank
  };
  for (const AttentionShape& shape : shapes) {
    for (const double dropout : {0.0, 0.3}) {
      SCOPED_TRACE(fmt::format("{} dropout {}", describe(shape), dropout));
      const AttentionProblem p(shape, dropout);
      const RingAttention ring(group_, shape.tokens);
      EXPECT_TRUE(right(ring, p, run(ring, p)));
    }
  }
}

TEST_F(Ring, SharpWeights) {
  for (const double sharpness : {8.0, 32.0}) {
    const AttentionProblem p({1, 24, 2, 1, 16}, 0.0, sharpness);
    const RingAttention ring(group_, 24);
    EXPECT_TRUE(right(ring, p, run(ring, p)));
  }
}

TEST_F(Ring, OneTokenAChunk) {
  const Count tokens = 2 * world_->size();
  const AttentionProblem p({2, tokens, 2, 2, 8}, 0.2);
  const RingAttention ring(group_, tokens);
  EXPECT_TRUE(right(ring, p, run(ring, p)));
}

// Three times, since races hide.
TEST_F(Ring, SameBitsEachTime) {
  const AttentionProblem p({2, 48, 4, 2, 16}, 0.2);
  const RingAttention ring(group_, 48);
  EXPECT_TRUE(ops::repeats([&] {
    const Results a = run(ring, p), b = run(ring, p);
    return std::vector<Tensor>{a.out, a.lse, a.dqkv, b.out};
  }));
}

// ||x - r|| / ||r|| over all elements.
double relative_distance(Input x, Input r) {
  double difference = 0.0;
  for (std::size_t i = 0; i < r.size(); ++i) difference += (x[i] - r[i]) * (x[i] - r[i]);
  return std::sqrt(difference / ops::dot(r, r));
}

// Tolerances as those of one block (tests/ops/partial_attention_16_bits_test.cpp), and the rounding of the results.
TEST_F(Ring, SixteenBitsAreWholeAttentionToRounding) {
  const std::vector<AttentionShape> shapes{{2, 48, 4, 2, 8}, {1, 240, 4, 2, 64}, {1, 768, 2, 1, 128}, {1, 120, 2, 2, 48}};
  for (const AttentionShape& shape : shapes) {
    for (const DType type : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), describe(shape)));
      AttentionProblem p(shape);
      p.round_to(type);
      const RingAttention ring(group_, shape.tokens);
      const Results results = run(ring, p, type);
      const double u = type == DType::bf16 ? 0x1.0p-8 : 0x1.0p-11;
      EXPECT_LE(relative_distance(ops::values_of(results.out), own_rows(ring, p.forward.out, shape.width())), 2.0 * u);
      EXPECT_LE(relative_distance(ops::values_of(results.lse), own_rows(ring, p.forward.lse, 1)), 1e-5);
      const Array dqkv = own_rows(ring, p.expected_gradient(), shape.packed_width());
      EXPECT_LE(relative_distance(ops::values_of(results.dqkv), dqkv), 2.5 * u);
    }
  }
}

// On a CPU everything between the inputs and the outputs is fp32: each output is rounded once.
TEST_F(Ring, NarrowResultsAreTheFp32OnesRoundedOnce) {
  if (test_device() == DeviceKind::gpu) GTEST_SKIP() << "tensor cores take weights in 16 bits";
  for (const DType type : {DType::bf16, DType::f16}) {
    AttentionProblem p({2, 24, 4, 2, 8}, 0.2);
    const RingAttention ring(group_, 24);
    const Results narrow = run(ring, p, type);
    for (Array* values : {&p.qkv, &p.dout, &p.forward.out})  // what the 16-bit run has seen
      *values = ops::values_of(ops::tensor_of_type(type, *values, {static_cast<Count>(values->size())}));
    const Results wide = run(ring, p);
    EXPECT_TRUE(ops::same_bits(narrow.out, ops::tensor_of_type(type, ops::values_of(wide.out), wide.out.shape())));
    EXPECT_TRUE(ops::same_bits(narrow.lse, wide.lse));
    EXPECT_TRUE(ops::same_bits(narrow.dqkv, ops::tensor_of_type(type, ops::values_of(wide.dqkv), wide.dqkv.shape())));
  }
}

TEST_F(Ring, SendsWhatItsHeaderSays) {
  const AttentionProblem p({2, 24, 4, 2, 8});
  const RingAttention ring(group_, 24);
  for (const DType type : {DType::f32, DType::bf16}) {
    std::map<std::string, Bytes> bytes;
    group_.observe([&](const CommEvent& event) { bytes[event.operation] += event.bytes; });
    run(ring, p, type);
    group_.observe({});
    const Count n = world_->size(), elements = 2 * (24 / n) * 2 * 2 * 8;  // B R 2 NKV HS
    const Bytes sent = elements * (2 * (n - 1) * size_of(type) + (n == 1 ? 0 : n * size_of(DType::f32)));
    EXPECT_EQ(bytes["send"], sent);
    EXPECT_EQ(bytes["recv"], sent);
  }
}

TEST_F(Ring, RefusesRowsThatAreNotItsPart) {
  const RingAttention ring(group_, 24);
  Arena arena("test", test_device());
  const StepContext context{.exec = ops::test_exec(), .activations = &arena};
  const Tensor any = ops::filled({1, 5, 24}, 0.0f);
  EXPECT_ERROR(ring.attention_forward(context, {1, 5, 1, 1, 8}, any, any, any, {}), ExitCode::internal, "5 tokens here", "24");
  EXPECT_ERROR(RingAttention(group_, 2 * world_->size() + 1), ExitCode::config, "model.context");
}

// The messages that a rank receives, forward and backward of N ranks:
//   forward kv: 0 to N - 2; backward, kv and sums in turn, from N - 1 on: kv of step 0, sums of step 0, ..., sums of step N - 1.
TEST_F(Ring, LostMessagesAreRejected) {
  const int n = world_->size();
  if (n == 1) return;
  const AttentionProblem p({2, 24, 4, 2, 8}, 0.2);
  const int total = (n - 1) + 2 * n - 1;
  for (int lost = -1; lost < total; ++lost) {
    LossyCommunicator lossy(group_, [lost](int message) { return message == lost; });
    const RingAttention ring(lossy, 24);
    const bool accepted = static_cast<bool>(right(ring, p, run(ring, p)));
    EXPECT_EQ(lossy.received(), total);
    // The last one lost: gradients of keys and values that do not come home.
    EXPECT_EQ(accepted_by_all(accepted), lost < 0) << "message " << lost << " of " << total;
  }
}

}  // namespace
}  // namespace cohort::test
