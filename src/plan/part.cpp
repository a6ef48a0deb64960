#include "plan/part.hpp"

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
      decoder_(dynamic_cast<const Decoder*>(model_.get())),
      rows_(config.train.micro_batch * units_per_sample(config.model) / config.parallel.cp) {}

Count PlannedPart::layers() const {
  if (decoder_ == nullptr) return config_.model.layers;
  Count layers = 0;
  for (const ChunkSpec& chunk : decoder_->chunks()) layers += chunk.layers();
  return layers;
}

bool PlannedPart::embeds() const { return decoder_ != nullptr && decoder_->chunks().front().embeds; }

bool PlannedPart::has_head() const { return decoder_ == nullptr || decoder_->chunks().back().has_head; }

Bytes PlannedPart::stream_bytes() const { return rows_ * config_.model.width * size_of(placement_of(config_).compute); }

}  // namespace cohort
