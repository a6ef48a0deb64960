#include "config/pipeline.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "pipeline/stage_ranges.hpp"

namespace cohort {
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
         "while a pipeline has several micro-batches under way; take \"zero1\", or parallel.pp = 1",
         data, config.pp, data == "zero2" ? "reduces gradients" : "gathers weights and reduces gradients");
  }
}

}  // namespace

pipeline::Schedule schedule_of(const ParallelSection& config, Count micro_batches) {
  constexpr Count kMost = std::numeric_limits<int>::max();
  COHORT_CHECK(config.pp <= kMost && config.chunks <= kMost && micro_batches <= kMost, "{} stages, {} chunks, {} micro-batches",
               config.pp, config.chunks, micro_batches);
  const pipeline::Schedule schedule{pipeline::schedule_kind_from_name(config.schedule), static_cast<int>(config.pp),
                                    static_cast<int>(config.chunks), static_cast<int>(micro_batches)};
  pipeline::check(schedule);
  return schedule;
}

void check_pipeline(const ModelSection& model, const ParallelSection& config, Count micro_batches) {
  if (config.pp == 1) return;
  if (!rules_of(model).is_decoder()) {
    fail(ExitCode::config,
         "model.kind = \"{}\" with parallel.pp = {}: pipeline stages are cut between transformer blocks, and it has none",
         model.kind, config.pp);
  }
  check_strategy(config);
  const pipeline::Schedule schedule = schedule_of(config, micro_batches);
  pipeline::stage_ranges(model.layers, schedule.virtual_stages(), {});
}

}  // namespace cohort
