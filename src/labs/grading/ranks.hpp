// Ranks that are threads of one process, with a network between them that is only counted: exercises with messages are graded on
// any number of ranks in no time, and a deadlock is seen in the moment in which it happens.
#pragma once

#include <cohort/lab.hpp>
#include <functional>
#include <vector>

#include "base/units.hpp"

namespace cohort::labs {

/// What the messages of a run come to. A message takes as long as both its ranks take part in it; a rank sends one and receives
/// one at a time.
struct Traffic {
  Count messages_in_turn = 0;        // the longest chain of messages that wait for each other
  Count elements_in_turn = 0;        // the same, a message counting its elements
  std::vector<Count> messages_sent;  // by rank
  std::vector<Count> elements_sent;  // by rank
};

/// Calls `work` on every rank at the same time. Rejected: the ranks wait for each other; two ranks disagree on the length of a
/// message; a message to or from a rank that is not there, or to oneself. What `work` throws on a rank is thrown here, that of
/// the lowest rank.
Traffic run_ranks(int ranks, const std::function<void(lab::Link&)>& work);

}  // namespace cohort::labs
