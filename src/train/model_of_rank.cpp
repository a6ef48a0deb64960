#include "train/model_of_rank.hpp"

#include "config/pipeline.hpp"
#include "parallel/pipeline/stages.hpp"
#include "train/precision.hpp"

namespace cohort {

std::unique_ptr<Model> declare_model_of_rank(const RunConfig& config, int stage, TensorParallel& parallel) {
  if (config.parallel.pp == 1) return declare_model(config.model, storage_of(config), parallel);
  const pipeline::Schedule schedule = schedule_of(config.parallel, config.train.accumulation);
  return declare_decoder(config.model, storage_of(config), parallel, pipeline::chunks_of(config.model, schedule, stage));
}

}  // namespace cohort
