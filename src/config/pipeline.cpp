#include "config/pipeline.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/model_rules.hpp"

namespace cohort::pipeline {
namespace {

void check_chunks(const Schedule& schedule) {
  if (schedule.kind == ScheduleKind::interleaved) {
    if (schedule.chunks < 2) {
      fail(ExitCode::config, "the interleaved schedule with {} per rank: it needs 2 or more; with 1 it would be 1f1b",
           counted(schedule.chunks, "chunk"));
    }
  } else if (schedule.chunks != 1) {
    fail(ExitCode::config, "schedule {} with {} chunks per rank: it has 1; the interleaved schedule has more",
         name_of(schedule.kind), schedule.chunks);
  }
}

void check_groups(const Schedule& schedule) {
  const int rest = schedule.micro_batches % schedule.stages;
  if (schedule.kind != ScheduleKind::interleaved || rest == 0) return;
  const Count below = schedule.micro_batches - rest;
  const Count above = below + schedule.stages;
  const std::string fitting = below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above);
  fail(ExitCode::config,
       "the interleaved schedule with {} on {}: they must be a multiple of the stages; use {}, or schedule 1f1b",
       counted(schedule.micro_batches, "micro-batch", "micro-batches"), counted(schedule.stages, "stage"), fitting);
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
  }
  return "?";
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kScheduleKinds) names.emplace_back(name_of(kind));
  return names;
}

ScheduleKind schedule_kind_from_name(std::string_view name) {
  for (const ScheduleKind kind : kScheduleKinds) {
    if (name == name_of(kind)) return kind;
  }
  fail(ExitCode::config, "unknown pipeline schedule '{}'; available: {}", name, join(schedule_names()));
}

void check(const Schedule& schedule) {
  if (schedule.stages < 1) fail(ExitCode::config, "a pipeline of {} stages: it needs at least 1", schedule.stages);
  if (schedule.micro_batches < 1) {
    fail(ExitCode::config, "a pipeline step of {} micro-batches: it needs at least 1; {} keep {} busy", schedule.micro_batches,
         Count{4} * schedule.stages, counted(schedule.stages, "stage"));
  }
  if (schedule.chunks < 1) fail(ExitCode::config, "{} chunks per rank: at least 1 is needed", schedule.chunks);
  const Count virtual_stages = Count{schedule.stages} * schedule.chunks;
  if (virtual_stages > std::numeric_limits<int>::max()) {
    fail(ExitCode::config, "{} x {} are {} virtual stages: more than any model has layers", counted(schedule.stages, "stage"),
         counted(schedule.chunks, "chunk"), virtual_stages);
  }
  check_chunks(schedule);
  check_groups(schedule);
}

void check_stages(Count layers, int virtual_stages) {
  if (virtual_stages < 1)
    fail(ExitCode::config, "{} on {} stages: at least 1 is needed", counted(layers, "layer"), virtual_stages);
  if (virtual_stages > layers) {
    fail(ExitCode::config,
         "{} layers cannot be cut into {} pipeline stages (ranks of the pipeline x chunks per rank), each of which needs a "
         "layer: use at most {} stages, or a model with {} layers",
         layers, virtual_stages, layers, virtual_stages);
  }
}

}  // namespace cohort::pipeline

namespace cohort {
namespace {

void check_strategy(const ParallelSection& config) {
  const std::string& data = config.data;
  if (data == "manual") {
    fail(ExitCode::config,
         "parallel.data = \"manual\" with parallel.pp = {}: its two replicas each need the whole model; set parallel.data = "
         "\"naive\"",
         config.pp);
  }
  if (data == "zero2" || data == "zero3") {
    fail(ExitCode::config,
         "parallel.data = \"{}\" with parallel.pp = {}: it {} in every pass of every micro-batch, and whole gradients must stay "
         "while a pipeline has several micro-batches in flight; use \"zero1\", or parallel.pp = 1",
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
  pipeline::check_stages(model.layers, schedule.virtual_stages());
}

}  // namespace cohort
