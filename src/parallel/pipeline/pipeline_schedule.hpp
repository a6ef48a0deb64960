// Pipeline schedules as data: what each rank of a pipeline does, in which order. No tensors and no communication: the engine
// executes these lists, timeline.hpp simulates them, and anybody can print them.
//
// Letters and virtual stages as in config/pipeline.hpp: S ranks (stages), V model chunks a rank, M micro-batches a step.
//
//   gpipe        all forwards, then all backwards. Keeps the activations of all M micro-batches.
//                Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", section 2.3.
//   1f1b         after a warm-up of S-1-r forwards, rank r takes forward and backward in turns, then drains. The same time as
//                gpipe, but at most S-r micro-batches are in flight, however large M is. Narayanan et al. 2021, "Memory-Efficient
//                Pipeline-Parallel DNN Training" (PipeDream-Flush).
//   interleaved  1f1b over V chunks a rank: the idle time falls by V, the messages rise by V. Narayanan et al. 2021, "Efficient
//                Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2. M is a multiple of S.
//
// What the engine may rely on (tests/parallel/pipeline/pipeline_schedule_test.cpp):
// - On every rank forwards come in the same order of (micro-batch, chunk), and so do backwards; within a chunk, micro-batches
//   ascend in both. So gradients are added up in the order in which one rank without a pipeline adds them, on every rank and
//   under every schedule.
// - Messages of one pass from one rank to another are received in the order in which they are sent. Activations and gradients
//   between the same two ranks can overtake each other in that: who has one queue for both posts receives in the order of
//   messages.hpp.
// - A send must not wait until its receiver is ready, or two neighbours that send to each other wait forever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "config/pipeline.hpp"

namespace cohort::pipeline {

// All functions here take schedules that pass check().

enum class Pass : std::uint8_t { forward, backward };

std::string_view name_of(Pass pass);

/// One pass of one micro-batch through one chunk of the rank that has it in its list.
struct Action {
  Pass pass;
  int micro_batch;
  int chunk;
  bool operator==(const Action&) const = default;
};

/// The 2 M V actions of one rank, in order. Builds no other rank's.
std::vector<Action> actions_of(const Schedule& schedule, int rank);

/// From now on actions_of() schedules of this kind is what `order` gives, which keeps the rules above. An empty function ends it.
/// Before any schedule is used: not thread-safe. For the course, where a learner has written it.
using OwnOrder = std::function<std::vector<Action>(const Schedule& schedule, int rank)>;
void use_own_order(ScheduleKind kind, OwnOrder order);

/// Most activations in flight on a rank: (micro-batch, chunk) whose forward is done and whose backward is not. This many sets of
/// saved activations, each of the layers of one chunk, are what a rank must have room for. In closed form: M for gpipe,
/// min(S - r, M) for 1f1b, min(2 (S - 1 - r) + (V - 1) S + 1, V M) for interleaved; an own order is counted.
Count most_in_flight(const Schedule& schedule, int rank);
/// The same, counted in a list of actions.
Count most_in_flight(const std::vector<Action>& actions);

/// Where the activations of each action lie, among as many places as most_in_flight() says: a forward takes the first that is
/// free, and its backward frees it.
std::vector<std::size_t> places_of(const std::vector<Action>& actions);

/// (S - 1) / (V M + S - 1): the share of the time in which a rank is idle, for all three schedules, if all virtual stages take
/// equally long and messages take no time. (The papers divide by the time of a pipeline without idle time instead, which gives
/// (S - 1) / (V M).)
double bubble_formula(const Schedule& schedule);

}  // namespace cohort::pipeline
