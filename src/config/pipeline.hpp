// What the run file says about a pipeline: its schedule, and what it does not go with. What ranks do in which schedule, the
// engine has beside it (parallel/pipeline/pipeline_schedule.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"

namespace cohort::pipeline {

enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved };

inline constexpr ScheduleKind kScheduleKinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved};

/// As in run files: "gpipe", "1f1b", "interleaved".
std::string_view name_of(ScheduleKind kind);
std::vector<std::string> schedule_names();
/// Throws Error(config) with the names there are.
ScheduleKind schedule_kind_from_name(std::string_view name);

/// A model chunk of a rank.
struct Place {
  int rank;
  int chunk;
  bool operator==(const Place&) const = default;
};

/// The model is cut into S V virtual stages of consecutive layers: S ranks (stages), V model chunks a rank. Chunk c of rank r is
/// virtual stage c S + r, so that with V > 1 a micro-batch passes every rank V times. A step has M micro-batches.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;         // S: ranks of the pipeline
  int chunks = 1;         // V: of a rank; 2 or more if interleaved, else 1
  int micro_batches = 1;  // M

  int virtual_stages() const { return stages * chunks; }
  /// Position in the model, from 0. The first takes tokens, the last gives the loss; the others take activations from the place
  /// of the virtual stage before and gradients from that of the one after.
  int virtual_stage(Place place) const { return place.chunk * stages + place.rank; }
  Place place_of(int virtual_stage) const { return {virtual_stage % stages, virtual_stage / stages}; }

  bool operator==(const Schedule&) const = default;
};

/// Throws Error(config), naming the nearest numbers that fit: numbers below 1, chunks that the kind does not have, an interleaved
/// schedule whose micro-batches are not a multiple of the stages.
void check(const Schedule& schedule);

/// Throws Error(config) if there are more virtual stages than layers, or none.
void check_stages(Count layers, int virtual_stages);

}  // namespace cohort::pipeline

namespace cohort {

/// The schedule of parallel.pp stages, with `micro_batches` of a step and rank (train.accumulation). Throws Error(config) as
/// pipeline::check().
pipeline::Schedule schedule_of(const ParallelSection& config, Count micro_batches);

/// Throws Error(config), saying why, if parallel.pp > 1 and the pipeline cannot be: a schedule that does not fit its numbers,
/// fewer layers than stages, an mlp, or a data-parallel strategy that micro-batches under way do not go with. Pure.
void check_pipeline(const ModelSection& model, const ParallelSection& config, Count micro_batches);

}  // namespace cohort
