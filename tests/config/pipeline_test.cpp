// What is said of a pipeline that cannot be, before anything is built.
#include "config/pipeline.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace cohort::test {
namespace {

TEST(CheckPipeline, RefusesWhatDoesNotGoTogether) {
  ModelSection model;
  model.layers = 4;
  ModelSection mlp;
  mlp.kind = "mlp";
  ParallelSection parallel;
  parallel.pp = 4;
  parallel.schedule = "1f1b";
  for (const char* data : {"naive", "hooks", "bucketed", "zero1", "monolith"}) {
    parallel.data = data;
    check_pipeline(model, parallel, 8);
  }
  for (const char* data : {"zero2", "zero3", "manual"}) {
    parallel.data = data;
    EXPECT_ERROR(check_pipeline(model, parallel, 8), ExitCode::config, data, "parallel.pp = 4",
                 std::string_view(data) == "manual" ? "set parallel.data" : "use \"zero1\"");
  }
  parallel.data = "bucketed";
  EXPECT_ERROR(check_pipeline(mlp, parallel, 8), ExitCode::config, "mlp", "parallel.pp = 4");
  model.layers = 3;
  EXPECT_ERROR(check_pipeline(model, parallel, 8), ExitCode::config, "3 layers", "4 pipeline stages");
  parallel.schedule = "interleaved";
  EXPECT_ERROR(check_pipeline(model, parallel, 8), ExitCode::config, "chunk");
  parallel.chunks = 2;
  model.layers = 8;
  EXPECT_ERROR(check_pipeline(model, parallel, 6), ExitCode::config, "6 micro-batches", "4 or 8");
  parallel.pp = 1;
  parallel.data = "zero3";
  check_pipeline(mlp, parallel, 1);
}

}  // namespace
}  // namespace cohort::test
