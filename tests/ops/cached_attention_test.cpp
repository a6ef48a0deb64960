// Attention against a cache: each token of a sample, one at a time or several, must get what whole attention gives it.
#include "ops/cached_attention.hpp"

#include "ops/attention_problem.hpp"

namespace cohort::ops {
namespace {

// Token `position` of sample `sample` of a problem, in some slot.
struct Token {
  std::int32_t slot, position;
  Count sample;
};

// A cache of more slots and positions than are used, full of garbage.
class TestCache {
 public:
  TestCache(const AttentionShape& shape, Count slots, DType type) : shape_(shape), type_(type) {
    const Count tokens = shape.tokens + 3;
    const Shape kept{slots, shape.kv_heads, tokens, shape.head_size};
    const Array garbage(static_cast<std::size_t>(kept.elements()), static_cast<double>(kGarbage));
    cache_ = {tensor_of_type(type, garbage, kept), tensor_of_type(type, garbage, kept)};
  }

  // Appends the tokens and returns their attention [rows, NH HS].
  Array attend(const AttentionProblem& p, const std::vector<Token>& tokens) const {
    std::vector<std::int32_t> slots, positions;
    Array rows;
    for (const Token& token : tokens) {
      slots.push_back(token.slot);
      positions.push_back(token.position);
      const auto row =
          Input(p.qkv).subspan((token.sample * p.shape.tokens + token.position) * p.shape.packed_width(), p.shape.packed_width());
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const Indices<std::int32_t> device_slots(slots), device_positions(positions);
    const CachePlaces places{device_slots.span(), device_positions.span(),
                             *std::max_element(positions.begin(), positions.end()) + 1};
    const auto count = static_cast<Count>(tokens.size());
    const Tensor qkv = tensor_of_type(type_, rows, {count, p.shape.packed_width()});
    const Tensor out = Tensor::zeros("test", {count, p.shape.width()}, type_, test_device());
    cache_append(test_exec(), shape_, cache_, qkv, places);
    cached_attention(test_exec(), shape_, out, qkv, cache_, places, filled({cached_attention_scratch(shape_, places)}, kGarbage));
    return values_of(out);
  }

 private:
  AttentionShape shape_;
  DType type_;
  CachedHeads cache_;
};

Input row_of(const AttentionProblem& p, const Array& of, const Token& token) {
  return Input(of).subspan((token.sample * p.shape.tokens + token.position) * p.shape.width(), p.shape.width());
}

void expect_rows(const AttentionProblem& p, const Array& tolerance, const std::vector<Token>& tokens, const Array& actual,
                 double rounding = 0.0) {
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    const Input expected = row_of(p, p.forward.out, tokens[r]);
    Array allowed(row_of(p, tolerance, tokens[r]).begin(), row_of(p, tolerance, tokens[r]).end());
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] += rounding * std::abs(expected[i]);
    EXPECT_TRUE(close(Input(actual).subspan(r * p.shape.width(), p.shape.width()), expected, allowed))
        << "position " << tokens[r].position << " of sample " << tokens[r].sample;
  }
}

void check_one_by_one(const AttentionShape& shape, double sharpness = 1.0) {
  SCOPED_TRACE(fmt::format("{} sharpness {}", describe(shape), sharpness));
  const AttentionProblem p(shape, 0.0, sharpness);
  const Array tolerance = p.out_tolerance();
  const TestCache cache(shape, shape.batch + 1, DType::f32);
  for (std::int32_t t = 0; t < shape.tokens; ++t) {
    std::vector<Token> tokens;
    for (Count b = 0; b < shape.batch; ++b) tokens.push_back({static_cast<std::int32_t>(shape.batch - b), t, b});
    expect_rows(p, tolerance, tokens, cache.attend(p, tokens));
  }
}

TEST(CachedAttention, GivesEachTokenWhatWholeAttentionDoes) {
  for (const Count kv_heads : {1, 2, 4}) check_one_by_one({2, 33, 4, kv_heads, 16});
  for (const Count head_size : {2, 6, 64, 80}) check_one_by_one({1, 9, 2, 2, head_size});
  check_one_by_one({1, 300, 3, 1, 32});  // three parts
}

TEST(CachedAttention, SharpWeights) {
  for (const double sharpness : {8.0, 32.0}) check_one_by_one({1, 140, 2, 1, 16}, sharpness);
}

// Texts of different lengths, and several tokens of one text, in one pass.
TEST(CachedAttention, AnyRowsTogether) {
  const AttentionShape shape{3, 270, 4, 2, 8};
  const AttentionProblem p(shape);
  const Array tolerance = p.out_tolerance();
  const TestCache cache(shape, 3, DType::f32);
  std::vector<Token> first, second;
  for (std::int32_t t = 0; t < 129; ++t) first.push_back({0, t, 2});
  for (std::int32_t t = 0; t < 5; ++t) first.push_back({2, t, 0});
  for (std::int32_t t = 0; t < 256; ++t) first.push_back({1, t, 1});
  expect_rows(p, tolerance, first, cache.attend(p, first));
  for (std::int32_t t = 256; t < 260; ++t) second.push_back({1, t, 1});
  second.push_back({2, 5, 0});
  second.push_back({0, 129, 2});
  const Array together = cache.attend(p, second);
  expect_rows(p, tolerance, second, together);
  // The same bits, whatever rows are beside it.
  for (std::size_t r = 4; r < second.size(); ++r) {
    const Array alone = cache.attend(p, {second[r]});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(r * p.shape.width())));
  }
}

TEST(CachedAttention, In16Bits) {
  for (const auto& [type, step] : {std::pair{DType::bf16, 0x1.0p-8}, std::pair{DType::f16, 0x1.0p-11}}) {
    const AttentionShape shape{1, 140, 4, 2, 16};
    AttentionProblem p(shape);
    p.round_to(type);
    const Array tolerance = p.out_tolerance();
    const TestCache cache(shape, 1, type);
    for (std::int32_t t = 0; t < shape.tokens; ++t) {
      const std::vector<Token> tokens{{0, t, 0}};
      expect_rows(p, tolerance, tokens, cache.attend(p, tokens), step);  // the result is rounded once
    }
  }
}

}  // namespace
}  // namespace cohort::ops
