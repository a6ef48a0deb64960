// Figures and histograms of tensors, and the picture of them.
#include "checkpoint/inspect/statistics.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "checkpoint/checkpoint_fixture.hpp"
#include "checkpoint/inspect/checkpoint_picture.hpp"
#include "checkpoint/read/reader.hpp"

namespace cohort::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TensorStatistics statistics_of_values(std::vector<float> values) {
  return statistics_of(Tensor::wrap(values.data(), {static_cast<Count>(values.size())}));
}

TEST(Statistics, Figures) {
  const TensorStatistics s = statistics_of_values({3.0f, -4.0f, 0.0f, kNan, kInfinity, -kInfinity, -0.0f, 1.0f});
  EXPECT_EQ(s.elements, 8);
  EXPECT_EQ(s.finite(), 5);
  EXPECT_EQ(s.zeros, 2) << "also -0";
  EXPECT_EQ(s.nans, 1);
  EXPECT_EQ(s.infinities, 2);
  EXPECT_DOUBLE_EQ(s.norm, std::sqrt(26.0));
  EXPECT_NEAR(s.mean, 0.0, 1e-15);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(26.0 / 5.0));
  EXPECT_EQ(s.min, -4.0);
  EXPECT_EQ(s.max, 3.0);
  EXPECT_EQ(s.smallest, 1.0);
}

// Parts together say what their elements do in one tensor; the tolerance is of sums in another order.
TEST(Statistics, Merged) {
  const std::vector<std::vector<float>> parts{{3.0f, -4.0f, 0.0f, kNan}, {kInfinity}, {7.0f, 9.0f, 0.5f}, {}};
  std::vector<float> elements;
  std::vector<TensorStatistics> statistics;
  for (const std::vector<float>& part : parts) {
    elements.insert(elements.end(), part.begin(), part.end());
    statistics.push_back(statistics_of_values(part));
  }
  const TensorStatistics all = merged(statistics), whole = statistics_of_values(elements);
  EXPECT_EQ(all.elements, whole.elements);
  EXPECT_EQ(all.zeros, whole.zeros);
  EXPECT_EQ(all.nans, whole.nans);
  EXPECT_EQ(all.infinities, whole.infinities);
  EXPECT_EQ(all.min, whole.min);
  EXPECT_EQ(all.max, whole.max);
  EXPECT_EQ(all.smallest, whole.smallest);
  EXPECT_NEAR(all.norm, whole.norm, 1e-12);
  EXPECT_NEAR(all.mean, whole.mean, 1e-12);
  EXPECT_NEAR(all.deviation, whole.deviation, 1e-12);
}

TEST(Statistics, NothingFinite) {
  for (const auto& values : std::vector<std::vector<float>>{{kNan}, {kInfinity, kNan}}) {
    const TensorStatistics s = statistics_of_values(values);
    EXPECT_EQ(s.finite(), 0);
    EXPECT_EQ(s.norm, 0.0);
    EXPECT_EQ(s.min, 0.0);
    EXPECT_EQ(s.root_mean_square(), 0.0);
  }
}

// 4096 + i / 1024 for i in 0..1023, all exact in fp32: the sum of squares alone would lose the deviation's last digits.
TEST(Statistics, SmallDeviationOfALargeMean) {
  std::vector<float> values(1024);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4096.0f + static_cast<float>(i) / 1024.0f;
  const TensorStatistics s = statistics_of_values(values);
  EXPECT_DOUBLE_EQ(s.mean, 4096.0 + 1023.0 / 2048.0);
  EXPECT_NEAR(s.deviation, std::sqrt((1024.0 * 1024.0 - 1.0) / 12.0) / 1024.0, 1e-12);
}

TEST(Statistics, AxisFitsTheValues) {
  EXPECT_TRUE(ValueAxis::suiting(statistics_of_values({-1.0f, 0.5f, 2.0f})).linear());
  EXPECT_TRUE(ValueAxis::suiting(statistics_of_values({0.9f, 1.0f, 1.1f})).linear()) << "gains of norms";
  EXPECT_FALSE(ValueAxis::suiting(statistics_of_values({0.0f, 1e-9f, 1e-4f})).linear()) << "second moments";
  std::vector<float> outlier(1000, 0.01f);
  outlier[0] = -1.0f;
  EXPECT_FALSE(ValueAxis::suiting(statistics_of_values(outlier)).linear());
  for (const auto& values :
       std::vector<std::vector<float>>{{7.0f}, {0.0f}, {-3.0f, -3.0f}, {-1.0f, 2.0f}, {0.0f, 1e-9f, 1e-4f}, outlier}) {
    const ValueAxis axis = ValueAxis::suiting(statistics_of_values(values));
    EXPECT_DOUBLE_EQ(axis.position(axis.low()), 0.0);
    EXPECT_DOUBLE_EQ(axis.position(axis.high()), 1.0);
    for (const double position : {0.0, 0.25, 0.5, 0.9}) EXPECT_NEAR(axis.position(axis.value(position)), position, 1e-12);
    for (const float value : values) {
      EXPECT_GE(axis.position(value), 0.0);
      EXPECT_LE(axis.position(value), 1.0);
    }
  }
}

class HistogramTest : public CheckpointTest {
 protected:
  /// A checkpoint with one tensor of these values.
  fs::path save_values(std::vector<float> values, const SaveOptions& options = {}) {
    values_ = std::move(values);
    Tensor tensor = Tensor::wrap(values_.data(), {static_cast<Count>(values_.size())});
    return cohort::save_checkpoint(run_, {{"/model/x", tensor.shape(), DType::f32, [tensor] { return tensor; }}}, make_state(1),
                                   options);
  }
  static Histogram histogram(const CheckpointReader& reader, int bins) {
    const ManifestTensor& tensor = reader.manifest().tensors().front();
    return histogram_of(reader, tensor, ValueAxis::suiting(statistics_of(reader, tensor)), bins);
  }

  std::vector<float> values_;
};

TEST_F(HistogramTest, CountsEveryFiniteElementOnce) {
  const CheckpointReader reader(save_values({0.0f, 0.1f, 1.0f, 1.9f, 2.0f, 3.9f, 4.0f, kNan, kInfinity}));
  EXPECT_EQ(histogram(reader, 4).counts, (std::vector<Count>{2, 2, 1, 2})) << "the largest is in the last bin";
}

// More than one block (2^20 elements), so that the reading is in pieces.
TEST_F(HistogramTest, ManyBlocks) {
  std::vector<float> values((std::size_t{1} << 21) + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8);
  for (const CheckpointForm form : {CheckpointForm::consolidated, CheckpointForm::per_rank}) {
    const CheckpointReader reader(save_values(values, {.form = form}));
    const std::vector<Count> counts = histogram(reader, 8).counts;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), Count{0}), static_cast<Count>(values.size()));
    EXPECT_EQ(counts.front(), (Count{1} << 18) + 1);
    EXPECT_EQ(counts.back(), Count{1} << 18);
  }
}

TEST_F(HistogramTest, Picture) {
  const CheckpointReader reader(save_values({-1.0f, 0.0f, 0.5f, 2.0f, kNan}));
  const TensorStatistics statistics = statistics_of(reader, reader.manifest().tensors().front());
  const KindPanel panel{{statistics, statistics}, {histogram(reader, 4), histogram(reader, 4)}};
  const CheckpointPicture picture{"runs/<demo> & more",
                                  {"weights", "m"},
                                  {10, 20},
                                  {{"a<b>&c", "2 x [5] fp32", {panel, std::nullopt}, {{1.0, 2.0}, {0.0, 0.5}}}}};
  const std::string svg = draw_checkpoint(picture);
  EXPECT_EQ(svg, draw_checkpoint(picture));
  expect_mentions(svg, {"<svg ", "runs/&lt;demo&gt; &amp; more", "a&lt;b&gt;&amp;c", "2 NaN", "20 % zero", "step 20", "</svg>"});
  EXPECT_EQ(draw_checkpoint({"none", {}, {}, {}}).find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos) << "no coordinate may be infinite";
}

}  // namespace
}  // namespace cohort::test
