// Text of a model that is divided over ranks: the tokens of one rank.
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "comm/mpi_communicator.hpp"
#include "gpu/device.hpp"
#include "models/model_problem.hpp"
#include "train/generate.hpp"
#include "train/model_on_mesh.hpp"

namespace cohort::test {
namespace {

const std::vector<std::vector<std::int32_t>> kPrompts{{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11, 12}, {200, 7, 300}};

RunConfig run_of(const char* kind, Count tp, Count pp, bool sequence, bool overlap) {
  RunConfig config;
  config.model = wide_config(kind);
  config.model.layers = 4;
  config.model.kv_heads = 4;
  config.model.context = 16;
  config.model.init_std = 0.2;  // so that logits are far apart beside the rounding of sums over ranks
  config.run.seed = 7;
  config.device.kind = test_device() == DeviceKind::gpu ? "cuda" : "cpu";
  config.device.share = test_device() == DeviceKind::gpu && gpu::visible_devices() < tp * pp;
  config.parallel.dp = 1;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.parallel.sequence = sequence;
  config.parallel.tensor_overlap = overlap;
  config.train.accumulation = 1;
  return config;
}

GenerateOptions options_of(const RunConfig& config, double temperature) {
  return {.vocabulary = config.model.vocabulary,
          .tokens = 20,  // beyond the context
          .sampling = {.temperature = temperature, .top_p = 0.95},
          .seed = 3,
          .texts = 2,
          .at_once = 3,
          .context = config.model.context};
}

class GenerateLayouts : public ::testing::Test {
 protected:
  int ranks() const { return world_->size(); }
  template <class Test>
  void for_each_layout(const Test& test) {
    for (const char* kind : {"gpt2", "llama", "qwen3"}) {
      for (const Count tp : {1, 2, 4}) {
        if (ranks() % tp != 0) continue;
        for (const auto& [sequence, overlap] : {std::pair{false, false}, {true, false}, {true, true}}) {
          if (sequence && tp == 1) continue;
          SCOPED_TRACE(fmt::format("{} tp {} pp {} sequence {} overlap {}", kind, tp, ranks() / tp, sequence, overlap));
          test(run_of(kind, tp, ranks() / tp, sequence, overlap));
        }
      }
    }
  }
  std::unique_ptr<Communicator> world_ = make_world_communicator();
  Hooks none_;
};

TEST_F(GenerateLayouts, HaveTheTokensOfOneRank) {
  for_each_layout([&](const RunConfig& config) {
    const std::unique_ptr<Model> whole = make_model(config.model, config.run.seed, test_storage(DType::f32));
    ModelOnMesh divided(config, *world_);
    for (const double temperature : {0.0, 1.0}) {
      const GenerateOptions options = options_of(config, temperature);
      EXPECT_EQ(generate(divided.predictor(), kPrompts, options, none_), generate(*whole, kPrompts, options, none_))
          << temperature;
    }
  });
}

// On whichever rank it is: an error on all, and no text.
TEST_F(GenerateLayouts, NanOnOneRankEndsAll) {
  for_each_layout([&](const RunConfig& config) {
    ModelOnMesh divided(config, *world_);
    if (world_->rank() == world_->size() - 1) {
      const Tensor nan = Tensor::zeros("test", {1});
      *nan.f32() = std::numeric_limits<float>::quiet_NaN();
      const Tensor& values = divided.model().parameters().all().back()->value;
      Tensor::wrap(values.raw(), {1}, DType::f32, values.device()).copy_from(nan);
    }
    EXPECT_THROW(generate(divided.predictor(), kPrompts, options_of(config, 0.0), none_), LogitsNotFinite);
  });
}

}  // namespace
}  // namespace cohort::test
