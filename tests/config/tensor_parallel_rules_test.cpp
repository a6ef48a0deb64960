// Which models tensor parallelism divides, and what a refusal says.
#include "config/tensor_parallel_rules.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

ModelSection llama() {
  ModelSection model;
  model.kind = "llama";
  model.width = 96;
  model.heads = 12;
  model.kv_heads = 4;
  model.ffn_width = 240;
  model.context = 36;
  model.vocabulary = 301;
  return model;
}

TEST(TensorParallelCheck, AcceptsWhatDivides) {
  ModelSection model = llama();
  for (const Count tp : {1, 2, 4, 12}) {
    EXPECT_NO_THROW(check_tensor_parallel(model, tp, false)) << tp;
    EXPECT_NO_THROW(check_tensor_parallel(model, tp, true)) << tp;
  }
  model.kv_heads = 1;
  for (const Count tp : {2, 3, 4, 6, 12}) EXPECT_NO_THROW(check_tensor_parallel(model, tp, true)) << tp;
  model.kind = "gpt2";
  model.kv_heads = 0;    // gpt2 has none of its own
  model.vocabulary = 0;  // not known yet
  for (const Count tp : {2, 3, 4, 6, 12}) EXPECT_NO_THROW(check_tensor_parallel(model, tp, true)) << tp;
}

TEST(TensorParallelCheck, RefusesWithTheNumbersAndTheNearestThatFit) {
  ModelSection model = llama();
  EXPECT_ERROR(check_tensor_parallel(model, 5, false, "run.toml:7: "), ExitCode::config, "run.toml:7: model.heads = 12",
               "parallel.tp = 5", "10 or 15", "fit this model: 4 or 12");
  EXPECT_ERROR(check_tensor_parallel(model, 3, false), ExitCode::config, "model.kv_heads = 4", "parallel.tp = 3", "2 or 4");
  EXPECT_ERROR(check_tensor_parallel(model, 24, false), ExitCode::config, "model.heads = 12", "fit this model: 12");
  model.ffn_width = 242;
  EXPECT_ERROR(check_tensor_parallel(model, 4, false), ExitCode::config, "model.ffn_width = 242", "240 or 244",
               "fit this model: 2");
  model = llama();
  model.context = 30;
  EXPECT_NO_THROW(check_tensor_parallel(model, 4, false));
  EXPECT_ERROR(check_tensor_parallel(model, 4, true), ExitCode::config, "model.context = 30", "28 or 32", "fit this model: 2");
  model.context = 36;
  EXPECT_ERROR(check_tensor_parallel(model, 4, true, "", 2), ExitCode::config, "model.context = 36", "parallel.cp = 2",
               "32 or 40", "fit this model: 2");
  model.vocabulary = 9;  // 3, 3, 3 and none
  EXPECT_ERROR(check_tensor_parallel(model, 4, false), ExitCode::config, "model.vocabulary = 9", "parts of 3",
               "fit this model: 2");
  model.kind = "mlp";
  EXPECT_ERROR(check_tensor_parallel(model, 2, false), ExitCode::config, "mlp", "parallel.tp = 1");
}

}  // namespace
}  // namespace cohort::test
