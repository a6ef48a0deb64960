// How the exercises of lab 8 are graded, a file for each group of them.
#pragma once

#include <cohort/lab08_pipelines.hpp>
#include <span>
#include <vector>

#include "config/pipeline.hpp"
#include "labs/labs.hpp"
#include "parallel/pipeline/pipeline_schedule.hpp"

namespace cohort::labs::lab08_pipelines {

void grade_bubble(const Library& library, Grading& grading);

using Order = void(int stages, int stage, int micro_batches, std::span<PipelineAction> actions);
/// By the engine's own schedule of this kind, in a simulation.
void grade_order(const Library& library, Grading& grading, const char* name, pipeline::ScheduleKind kind);
/// What `order` gives for one stage; Rejected if it writes beside its actions.
std::vector<pipeline::Action> actions_by(Order* order, const pipeline::Schedule& schedule, int stage);
/// Rejected, with the stage and the action, if the stages cannot work in these orders, or wait for each other for ever.
void check_orders(const pipeline::Schedule& schedule, const std::vector<std::vector<pipeline::Action>>& orders);

void grade_peak(const Library& library, Grading& grading);
void grade_balance(const Library& library, Grading& grading);

void grade_coordinates(const Library& library, Grading& grading);
void grade_groups(const Library& library, Grading& grading);
void grade_layout(const Library& library, Grading& grading);

}  // namespace cohort::labs::lab08_pipelines
