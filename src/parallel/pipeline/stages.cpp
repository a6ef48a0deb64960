#include "parallel/pipeline/stages.hpp"

#include <limits>

namespace cohort::pipeline {
namespace {

void check_strategy(const ParallelSection& config) {
  const std::string& data = config.data;
  if (data == "manual") {
    fail(ExitCode::config,
         "parallel.data = \"manual\" with parallel.pp = {}: its two replicas each need the whole model; take parallel.data = "
         "\"naive\"",
         config.pp);
  }
  if (data == "zero2" || data == "zero3") {
    fail(ExitCode::config,
         "parallel.data = \"{}\" with parallel.pp = {}: it {} in every pass of every micro-batch, and whole gradients must stay "
         "while "
         "a pipeline has several micro-batches under way; take \"zero1\", or parallel.pp = 1",
         data, config.pp, data == "zero2" ? "reduces gradients" : "gathers weights and reduces gradients");
  }
}

}  // namespace

Schedule schedule_of(const ParallelSection& config, Count micro_batches) {
  constexpr Count kMost = std::numeric_limits<int>::max();
  COHORT_CHECK(config.pp <= kMost && config.chunks <= kMost && micro_batches <= kMost, "{} stages, {} chunks, {} micro-batches",
               config.pp, config.chunks, micro_batches);
  const Schedule schedule{schedule_kind_from_name(config.schedule), static_cast<int>(config.pp), static_cast<int>(config.chunks),
                          static_cast<int>(micro_batches)};
  check(schedule);
  return schedule;
}

void check_pipeline(const ModelSection& model, const ParallelSection& config, Count micro_batches) {
  if (config.pp == 1) return;
  if (model.kind == "mlp") {
    fail(ExitCode::config,
         "model.kind = \"mlp\" with parallel.pp = {}: pipeline stages are cut between the blocks of gpt2 and llama", config.pp);
  }
  check_strategy(config);
  const Schedule schedule = schedule_of(config, micro_batches);
  stage_ranges(model.layers, schedule.virtual_stages(), {});
}

EndCosts end_costs(const ModelSection& model) {
  const auto width = static_cast<double>(model.width);
  const auto decoder = [&](Count layers) {
    ModelSection of_layers = model;
    of_layers.layers = layers;
    return declare_model(of_layers)->flops_per_token(model.context);
  };
  const double block = decoder(2) - decoder(1);
  return {.embedding = 3.0 * width / block, .head = 6.0 * static_cast<double>(model.vocabulary) * width / block};
}

std::vector<ChunkSpec> chunks_of(const ModelSection& model, const Schedule& schedule, int rank) {
  const std::vector<LayerRange> ranges = stage_ranges(model.layers, schedule.virtual_stages(), end_costs(model));
  std::vector<ChunkSpec> chunks;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int stage = schedule.virtual_stage({rank, chunk});
    const LayerRange& range = ranges[static_cast<std::size_t>(stage)];
    chunks.push_back({range.first, range.end, stage == 0, stage + 1 == schedule.virtual_stages()});
  }
  return chunks;
}

}  // namespace cohort::pipeline
