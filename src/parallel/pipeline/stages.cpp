#include "parallel/pipeline/stages.hpp"

#include <map>
#include <set>

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

namespace {

std::vector<ChunkSpec> chunks_at(const std::vector<LayerRange>& ranges, const Schedule& schedule, int rank) {
  std::vector<ChunkSpec> chunks;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int stage = schedule.virtual_stage({rank, chunk});
    const LayerRange& range = ranges[static_cast<std::size_t>(stage)];
    chunks.push_back({range.first, range.end, stage == 0, stage + 1 == schedule.virtual_stages()});
  }
  return chunks;
}

}  // namespace

std::vector<ChunkSpec> chunks_of(const ModelSection& model, const Schedule& schedule, int rank) {
  return chunks_at(stage_ranges(model.layers, schedule.virtual_stages(), end_costs(model)), schedule, rank);
}

std::vector<int> like_ranks(const ModelSection& model, const Schedule& schedule) {
  const std::vector<LayerRange> ranges = stage_ranges(model.layers, schedule.virtual_stages(), end_costs(model));
  const DecoderSpec spec = common_decoder(model);
  std::map<std::vector<Count>, int> first_of_kind;
  std::vector<int> ranks;
  for (int rank = 0; rank < schedule.stages; ++rank) {
    std::vector<Count> kind;
    for (const ChunkSpec& chunk : chunks_at(ranges, schedule, rank)) {
      kind.insert(kind.end(), {chunk.layers(), chunk.embeds ? 1 : 0, chunk.has_head ? 1 : 0});
      for (Count layer = chunk.first_layer; layer < chunk.end_layer; ++layer) kind.push_back(spec.recomputes(layer) ? 1 : 0);
    }
    ranks.push_back(first_of_kind.emplace(kind, rank).first->second);
  }
  return ranks;
}

std::vector<int> heaviest_ranks(const ModelSection& model, const Schedule& schedule) {
  const std::vector<int> like = like_ranks(model, schedule);
  const std::set<int> first(like.begin(), like.end());
  return {first.begin(), first.end()};
}

}  // namespace cohort::pipeline
