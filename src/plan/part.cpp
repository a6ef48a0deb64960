#include "plan/part.hpp"

#include <algorithm>

#include "config/model_rules.hpp"
#include "config/pipeline.hpp"
#include "train/model_of_rank.hpp"
#include "train/precision.hpp"

namespace cohort {

PlannedPart::PlannedPart(const RunConfig& config, int stage)
    : config_(config),
      stage_(stage),
      parallel_(static_cast<int>(config.parallel.tp), 0, config.parallel.sequence),
      schedule_(config.parallel.pp == 1 ? pipeline::Schedule{.micro_batches = static_cast<int>(config.train.accumulation)}
                                        : schedule_of(config.parallel, config.train.accumulation)),
      model_(declare_model_of_rank(config, stage, parallel_)),
      rows_(config.train.micro_batch * units_per_sample(config.model) / config.parallel.cp) {}

Count PlannedPart::layers() const {
  const auto* decoder = dynamic_cast<const Decoder*>(model_.get());
  if (decoder == nullptr) return config_.model.layers;
  Count layers = 0;
  for (const ChunkSpec& chunk : decoder->chunks()) layers += chunk.layers();
  return layers;
}

Count PlannedPart::checkpointed_layers() const {
  const auto* decoder = dynamic_cast<const Decoder*>(model_.get());
  if (decoder == nullptr) return 0;
  Count layers = 0;
  for (const ChunkSpec& chunk : decoder->chunks()) layers += decoder->checkpointed_layers(chunk);
  return layers;
}

Count PlannedPart::most_whole_layers_of_a_chunk() const {
  const auto* decoder = dynamic_cast<const Decoder*>(model_.get());
  if (decoder == nullptr) return config_.model.layers;
  Count most = 0;
  for (const ChunkSpec& chunk : decoder->chunks()) most = std::max(most, chunk.layers() - decoder->checkpointed_layers(chunk));
  return most;
}

Count PlannedPart::layers_of_largest_chunk() const {
  const auto* decoder = dynamic_cast<const Decoder*>(model_.get());
  if (decoder == nullptr) return config_.model.layers;
  Count most = 0;
  for (const ChunkSpec& chunk : decoder->chunks()) most = std::max(most, chunk.layers());
  return most;
}

Bytes PlannedPart::stream_bytes() const { return rows_ * config_.model.width * size_of(storage_of(config_).compute); }

}  // namespace cohort
