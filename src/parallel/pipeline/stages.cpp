#include "parallel/pipeline/stages.hpp"

namespace cohort::pipeline {

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
