// The messages of a pipeline: who needs what from whom, and in which order a rank posts its receives.
//
// The order matters where the operations of a rank run one behind the other, as NCCL's do on one stream: a receive that is posted
// before its message can exist holds up the sends behind it, and two ranks may then wait for each other forever. So all ranks
// post by one clock, that of the simulated step (timeline.hpp) in which every forward takes 1 and every backward 2. Each rank
// does, for each action that takes from `start` to `end` there:
//   1. post the send of what its last action made, and the receives of messages made by `start`; launch these
//   2. wait for what the action needs
//   3. post the receives of messages made after `start` and before `end`; launch these
//   4. run the action
// Why nobody waits forever, however long things take in truth: go through actions and messages by simulated time. An action that
// ends at T needs messages made by its start, before T, which were launched in 1 with or behind messages made before T only. A
// message made at T is launched by its sender once the action that made it has ended, and by its receiver when all that it runs
// before is older than T; what is launched together does not wait for each other. So whatever is first has all that it needs.
// Collectives that an action starts, such as sums of gradients over data-parallel ranks, come at the same place on all their
// ranks, behind what is older than the action's end: as if they were made there. (tests/parallel/pipeline/messages_test.cpp
// executes the plans in that way.)
//
// A rank makes its messages one after the other and receivers post by the time when they were made, so messages between two ranks
// are received in the order in which they are sent, activations and gradients alike: neither tags nor a second communicator are
// needed to tell them apart.
#pragma once

#include <optional>
#include <vector>

#include "parallel/pipeline/pipeline_schedule.hpp"

namespace cohort::pipeline {

/// Where the input of an action of `rank` is made: an activation by the virtual stage before, a gradient by the one behind. None
/// if it starts from tokens or from the loss.
std::optional<Place> source_of(const Schedule& schedule, int rank, const Action& action);
/// Who needs what it makes; none if that is the loss, or a gradient that nobody needs.
std::optional<Place> target_of(const Schedule& schedule, int rank, const Action& action);

/// A message to a rank: the input of one of its actions, from another rank.
struct Receive {
  Action action;
  int from;
  bool operator==(const Receive&) const = default;
};

/// What a rank posts around one of its actions, in order.
struct Receives {
  std::vector<Receive> before;  // in 1.
  std::vector<Receive> during;  // in 3.
};

/// For each action of a rank, as actions_of() has them. With one rank there are none.
std::vector<Receives> receives_of(const Schedule& schedule, int rank);

/// Messages in the memory of a rank beside the inputs that wait for their backward, at most: received ahead, the gradient at
/// work, and gradients being sent. How many there are is a matter of timing. With several chunks more are received ahead.
Count messages_on_their_way(const Schedule& schedule);
/// All messages in the memory of a rank at once, at most: those, and inputs from other ranks.
Count most_messages(const Schedule& schedule, int rank);

/// Messages that a rank sends in a step; the job receives as many as it sends.
Count sends_of(const Schedule& schedule, int rank);

}  // namespace cohort::pipeline
