// Attention over samples that are packed with documents, which do not see each other.
#include "ops/attention_problem.hpp"
#include "ops/finite_difference.hpp"

namespace cohort::ops {
namespace {

using FirstKeysOfBatch = std::vector<std::int32_t>;

void check_documents(const AttentionShape& shape, const FirstKeysOfBatch& first_keys, double dropout = 0.0) {
  SCOPED_TRACE(fmt::format("{} dropout {}", describe(shape), dropout));
  const AttentionProblem p(shape, dropout, 1.0, first_keys);
  const std::vector<Tensor> forward = run_forward(p, p.qkv);
  EXPECT_TRUE(close(forward[0], p.forward.out, p.out_tolerance()));
  EXPECT_TRUE(close(forward[1], p.forward.lse, p.lse_tolerance()));
  EXPECT_TRUE(close(run_backward(p), p.expected_gradient(), p.gradient_tolerance()));
}

TEST(SeparateDocuments, AnyLength) {
  for (const Count mean : {1, 2, 10, 70, 300}) {
    SCOPED_TRACE(fmt::format("documents of {} tokens on average", mean));
    for (const Count tokens : {1, 2, 33, 64, 200})
      check_documents({2, tokens, 4, 2, 16}, random_first_keys(2, tokens, mean, static_cast<std::uint32_t>(tokens)));
    check_documents({1, 257, 2, 1, 128}, random_first_keys(1, 257, mean, 3));
    check_documents({3, 130, 3, 3, 80}, random_first_keys(3, 130, mean, 4));
  }
}

// Documents that end where tiles do, one before and one behind.
TEST(SeparateDocuments, AtTheEdgesOfTiles) {
  for (const std::int32_t edge : {31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    FirstKeysOfBatch first_keys(200, 0);
    std::fill(first_keys.begin() + edge, first_keys.end(), edge);
    check_documents({1, 200, 2, 1, 64}, first_keys);
  }
}

TEST(SeparateDocuments, Dropout) {
  for (const Count mean : {5, 50}) check_documents({2, 100, 4, 2, 16}, random_first_keys(2, 100, mean, 1), 0.2);
}

// A part [begin, end) of the rows of one sample, each of `width` elements.
Array rows_of(Input values, Count width, Count begin, Count end) {
  return {values.begin() + begin * width, values.begin() + end * width};
}

TEST(SeparateDocuments, AreThoseOfSamplesOfTheirOwn) {
  const Count ends[]{1, 40, 41, 128, 200};
  FirstKeysOfBatch first_keys;
  for (Count begin = 0; const Count end : ends) {
    first_keys.resize(static_cast<std::size_t>(end), static_cast<std::int32_t>(begin));
    begin = end;
  }
  const AttentionProblem packed({1, 200, 4, 2, 16}, 0.0, 1.0, first_keys);
  const Count width = packed.shape.width(), packed_width = packed.shape.packed_width();
  const Array out = values_of(run_forward(packed, packed.qkv)[0]), dqkv = values_of(run_backward(packed));
  for (Count begin = 0; const Count end : ends) {
    AttentionProblem alone({1, end - begin, 4, 2, 16});
    alone.qkv = rows_of(packed.qkv, packed_width, begin, end);
    alone.dout = rows_of(packed.dout, width, begin, end);
    alone.forward = reference::attention_forward(alone.qkv, alone.heads);
    EXPECT_TRUE(close(run_forward(alone, alone.qkv)[0], rows_of(out, width, begin, end), 1e-5));
    EXPECT_TRUE(close(run_backward(alone), rows_of(dqkv, packed_width, begin, end), 1e-4));
    begin = end;
  }
}

TEST(SeparateDocuments, OneDocumentIsTheWholeSample) {
  const AttentionProblem joined({2, 100, 4, 2, 32}), separate({2, 100, 4, 2, 32}, 0.0, 1.0, FirstKeysOfBatch(200, 0));
  EXPECT_TRUE(same_bits(run_forward(joined, joined.qkv)[0], run_forward(separate, separate.qkv)[0]));
  EXPECT_TRUE(close(run_backward(separate), joined.expected_gradient(), joined.gradient_tolerance()));
}

TEST(SeparateDocuments, GradientIsTheSlopeOfTheOp) {
  const AttentionProblem p({1, 70, 4, 2, 16}, 0.2, 1.0, random_first_keys(1, 70, 10, 1));
  const auto loss = [&](Input qkv) { return dot(p.dout, values_of(run_forward(p, qkv)[0])); };
  EXPECT_TRUE(moves_along(values_of(run_backward(p)), p.qkv, loss));
  const AttentionProblem joined({1, 70, 4, 2, 16}, 0.2);
  EXPECT_FALSE(moves_along(values_of(run_backward(joined)), p.qkv, loss));
}

TEST(SeparateDocuments, SameBitsEachTime) {
  const AttentionProblem p({2, 200, 4, 2, 32}, 0.2, 1.0, random_first_keys(2, 200, 30, 1));
  EXPECT_TRUE(repeats([&] { return run_forward(p, p.qkv); }));
  EXPECT_TRUE(repeats([&] { return std::vector<Tensor>{run_backward(p)}; }));
}

// A mask that is off by one, on either side, or that forgets documents in one sample.
TEST(SeparateDocuments, TheComparisonRejectsWrongMasks) {
  const FirstKeysOfBatch first_keys = random_first_keys(2, 100, 20, 1);
  const AttentionProblem p({2, 100, 4, 2, 16}, 0.0, 1.0, first_keys);
  const Tensor out = run_forward(p, p.qkv)[0], dqkv = run_backward(p);
  const auto rejects = [&](const FirstKeysOfBatch& wrong) {
    return !close(out, reference::attention_forward(p.qkv, p.heads, {}, wrong).out, p.out_tolerance()) &&
           !close(dqkv, reference::attention_backward(p.dout, p.qkv, p.heads, {}, wrong), p.gradient_tolerance());
  };
  ASSERT_FALSE(rejects(first_keys));
  FirstKeysOfBatch one_more = first_keys, one_less = first_keys, second_joined = first_keys;
  for (std::size_t i = 0; i < first_keys.size(); ++i) {
    one_more[i] = std::max(0, first_keys[i] - 1);
    one_less[i] = std::min(static_cast<std::int32_t>(i % 100), first_keys[i] + 1);
    if (i >= 100) second_joined[i] = 0;
  }
  EXPECT_TRUE(rejects(one_more));
  EXPECT_TRUE(rejects(one_less));
  EXPECT_TRUE(rejects(second_joined));
}

// In 16 bits, with the sizes at which the kernels for GPUs differ; how far off they may be as in
// partial_attention_16_bits_test.cpp, and out is rounded, too.
double norm_of(Input values) { return std::sqrt(dot(values, values)); }
double distance_of(Input a, Input b) {
  Array difference(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return norm_of(difference);
}

void check_documents_in_16_bits(const AttentionShape& shape, const FirstKeysOfBatch& first_keys, double dropout = 0.0) {
  for (const DType type : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(fmt::format("{} {} dropout {}", name_of(type), describe(shape), dropout));
    AttentionProblem p(shape, dropout, 1.0, first_keys);
    p.round_to(type);
    const AttentionShape& s = p.shape;
    const Shape packed{s.batch, s.tokens, s.packed_width()}, wide{s.batch, s.tokens, s.width()},
        per_head{s.batch, s.heads, s.tokens};
    const Tensor qkv = tensor_of_type(type, p.qkv, packed), out = tensor_of_type(type, Array(p.dout.size(), 0.0), wide);
    const Tensor lse = filled(per_head, kGarbage), dqkv = tensor_of_type(type, Array(p.qkv.size(), 0.0), packed);
    const Tensor scratch =
        Tensor::zeros("test", {std::max<Bytes>(1, attention_scratch_bytes(test_exec(), s, type))}, DType::u8, test_device());
    attention_forward(test_exec(), s, out, lse, qkv, scratch, p.key);
    const double u = type == DType::bf16 ? 0x1.0p-8 : 0x1.0p-11;
    EXPECT_LE(distance_of(values_of(out), p.forward.out), 2.0 * u * norm_of(p.forward.out));
    EXPECT_LE(distance_of(values_of(lse), p.forward.lse), 1e-5 * norm_of(p.forward.lse));
    const Tensor expected_out = tensor_of_type(type, p.forward.out, wide), expected_lse = tensor_of(p.forward.lse, per_head);
    attention_backward(test_exec(), s, dqkv, tensor_of_type(type, p.dout, wide), expected_out, expected_lse, qkv, scratch, p.key);
    const Array gradient = p.expected_gradient();
    EXPECT_LE(distance_of(values_of(dqkv), gradient), 2.5 * u * norm_of(gradient));
  }
}

TEST(SeparateDocuments, In16Bits) {
  for (const Count mean : {2, 50, 200}) {
    SCOPED_TRACE(fmt::format("documents of {} tokens on average", mean));
    for (const Count head_size : {32, 64, 128}) {
      check_documents_in_16_bits({2, 256, 4, 2, head_size}, random_first_keys(2, 256, mean, 1));
      check_documents_in_16_bits({1, 611, 2, 1, head_size}, random_first_keys(1, 611, mean, 2));
      check_documents_in_16_bits({2, 77, 3, 3, head_size}, random_first_keys(2, 77, mean, 3));
    }
    check_documents_in_16_bits({2, 150, 4, 2, 64}, random_first_keys(2, 150, mean, 4), 0.2);
  }
  // Long enough for the kernel that sums all gradients at once (ops/cuda/attention/flash_attention_hopper_joint.hpp).
  check_documents_in_16_bits({1, 2085, 2, 1, 64}, random_first_keys(1, 2085, 300, 5));
  check_documents_in_16_bits({2, 2176, 4, 2, 64}, random_first_keys(2, 2176, 40, 6));
  FirstKeysOfBatch at_tiles;  // documents that begin where its tiles do
  for (std::int32_t i = 0; i < 2048; ++i) at_tiles.push_back(i / 384 * 384);
  check_documents_in_16_bits({1, 2048, 2, 2, 64}, at_tiles);
}

}  // namespace
}  // namespace cohort::ops
