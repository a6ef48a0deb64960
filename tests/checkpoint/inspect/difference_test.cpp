// Comparing checkpoints: bits, tolerances, types and what only one of the two has.
#include "checkpoint/inspect/difference.hpp"

#include <cmath>
#include <limits>

#include "checkpoint/checkpoint_fixture.hpp"

namespace cohort::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Difference : public CheckpointTest {
 protected:
  struct Values {
    std::string name;
    Shape shape;
    std::vector<float> values;
    DType dtype = DType::f32;
  };

  CheckpointReader saved(Count step, std::vector<Values> tensors, const SaveOptions& options = {}) {
    std::vector<StoredTensor> stored;
    for (Values& tensor : tensors) {
      Tensor view = Tensor::wrap(tensor.values.data(), tensor.shape);
      stored.push_back({tensor.name, tensor.shape, tensor.dtype, [view] { return view; }});
    }
    return CheckpointReader(cohort::save_checkpoint(run_, stored, make_state(step), options));
  }

  TensorDifference compare(std::vector<float> a, std::vector<float> b, double tolerance = 0.0) {
    const Shape shape{static_cast<Count>(a.size() / 2), 2};
    const CheckpointReader first = saved(1, {{"/model/x", shape, std::move(a)}});
    const CheckpointReader second = saved(2, {{"/model/x", shape, std::move(b)}});
    return compare_tensors(first, second, tolerance).at(0);
  }
};

TEST_F(Difference, Figures) {
  const TensorDifference d = compare({1, 2, 3, 4, 5, 6}, {1, 2, 3, 5, 5, 3});
  EXPECT_EQ(d.result, TensorComparison::unequal);
  EXPECT_EQ(d.elements, 6);
  EXPECT_EQ(d.different, 2);
  EXPECT_EQ(d.absolute, 3.0);
  EXPECT_EQ(d.relative, 0.5);
  EXPECT_DOUBLE_EQ(d.root_mean_square(), std::sqrt(10.0 / 6.0));
  EXPECT_EQ(d.first, (std::vector<Count>{1, 1}));
}

TEST_F(Difference, Tolerance) {
  EXPECT_EQ(compare({1, 2}, {1, 2.5f}, 0.5).result, TensorComparison::equal);
  EXPECT_EQ(compare({1, 2}, {1, 2.5f}, 0.5).absolute, 0.5) << "shown all the same";
  EXPECT_EQ(compare({1, 2}, {1, 2.5f}, 0.49).different, 1);
}

TEST_F(Difference, BitForBit) {
  EXPECT_EQ(compare({kNan, kInfinity}, {kNan, kInfinity}).result, TensorComparison::equal) << "a NaN of the same bits";
  const TensorDifference zero = compare({0.0f, 1}, {-0.0f, 1});
  EXPECT_EQ(zero.different, 1);
  EXPECT_EQ(zero.absolute, 0.0);
  EXPECT_EQ(zero.relative, 0.0);
  for (const float other : {1.0f, -kInfinity, kInfinity}) {
    const TensorDifference d = compare({kNan, 1}, {other, 1}, 1e30);
    EXPECT_EQ(d.different, 1) << "no tolerance makes NaN equal to " << other;
    EXPECT_TRUE(std::isinf(d.absolute));
  }
  EXPECT_EQ(compare({kInfinity, 1}, {-kInfinity, 1}, 1e30).different, 1);
}

TEST_F(Difference, NamesShapesAndTypes) {
  const CheckpointReader a = saved(1, {{"/model/only_a", {1}, {1}},
                                       {"/model/shape", {2, 1}, {1, 2}},
                                       {"/model/type", {3}, {1.0f, 0.5f, 1.001f}},
                                       {"/model/scalar", {}, {1}}});
  const CheckpointReader b = saved(2, {{"/model/shape", {1, 2}, {1, 2}},
                                       {"/model/type", {3}, {1.0f, 0.5f, 1.001f}, DType::bf16},
                                       {"/model/scalar", {}, {2}},
                                       {"/model/only_b", {1}, {1}}});
  const std::vector<TensorDifference> d = compare_tensors(a, b, 0.0);
  ASSERT_EQ(d.size(), 5u);
  EXPECT_EQ(d[0].result, TensorComparison::only_in_first);
  EXPECT_EQ(d[1].result, TensorComparison::other_shape);
  EXPECT_EQ(d[1].note, "fp32 [2, 1] and fp32 [1, 2]");
  EXPECT_EQ(d[2].result, TensorComparison::unequal) << "1.001 is not a bf16";
  EXPECT_EQ(d[2].different, 1);
  EXPECT_EQ(d[2].first, (std::vector<Count>{2}));
  EXPECT_EQ(d[3].different, 1);
  EXPECT_TRUE(d[3].first.empty()) << "a scalar has no indices";
  EXPECT_EQ(d[4].result, TensorComparison::only_in_second);
  EXPECT_EQ(compare_tensors(a, b, 0.01)[2].result, TensorComparison::equal) << "apart by less than bf16 rounds";
}

// Longer than the window that is read at a time (8 blocks of 2^20 elements), with the difference behind it.
TEST_F(Difference, BehindTheFirstWindow) {
  const Count rows = (Count{1} << 22) + 3;
  std::vector<float> values(static_cast<std::size_t>(2 * rows));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  const CheckpointReader a = saved(1, {{"/model/x", {rows, 2}, values}});
  const CheckpointReader same = saved(2, {{"/model/x", {rows, 2}, values}}, {.form = CheckpointForm::per_rank});
  EXPECT_EQ(compare_tensors(a, same, 0.0).at(0).result, TensorComparison::equal) << "another form of the same";
  values[values.size() - 1] += 2.0f;
  values[values.size() - 4] += 1.0f;
  const CheckpointReader other = saved(3, {{"/model/x", {rows, 2}, values}});
  const TensorDifference d = compare_tensors(a, other, 0.0).at(0);
  EXPECT_EQ(d.different, 2);
  EXPECT_EQ(d.absolute, 2.0);
  EXPECT_EQ(d.first, (std::vector<Count>{rows - 2, 0}));
}

TEST_F(Difference, States) {
  TrainingState a = make_state(1);
  TrainingState b = a;
  EXPECT_TRUE(compare_states(a, b).empty());
  b.step = 2;
  b.layout = "dp=1";
  b.validation_loss = "2.5";
  b.run_file = "another";  // compared key by key elsewhere
  const std::vector<StateDifference> d = compare_states(a, b);
  ASSERT_EQ(d.size(), 3u);
  EXPECT_EQ(d[0].name, "step");
  EXPECT_EQ(d[0].a, "1");
  EXPECT_EQ(d[0].b, "2");
  EXPECT_TRUE(d[0].decides);
  EXPECT_FALSE(d[1].decides) << d[1].name;
  EXPECT_FALSE(d[2].decides) << d[2].name;
}

TEST_F(Difference, Tokenizers) {
  TrainingState a = make_state(1);
  TrainingState b = a;
  b.tokenizer[b.tokenizer.size() - 3] = '9';  // another character
  const std::vector<StateDifference> other = compare_states(a, b);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].name, "tokenizer");
  EXPECT_TRUE(other[0].a.starts_with(fmt::format("{} bytes, crc32=", a.tokenizer.size()))) << other[0].a;
  EXPECT_NE(other[0].a, other[0].b);
  EXPECT_TRUE(other[0].decides);
  b.tokenizer.clear();
  const std::vector<StateDifference> older = compare_states(a, b);
  ASSERT_EQ(older.size(), 1u);
  EXPECT_EQ(older[0].b, "none");
  EXPECT_FALSE(older[0].decides) << "its data says which tokenizer it was";
}

}  // namespace
}  // namespace cohort::test
