// A group of which there is one rank only, this one, for a thread that counts (base/counting.hpp): every operation is done at
// once, nothing is sent, and no other rank need exist. What was asked for is told to the observer (CommTrace), as in any group:
// that is the count. Whoever listens to the thread (base/counting_listener.hpp) is told the ranks that would take part, too, and
// when the caller waits. Buffers are not looked at.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// Rank `rank` of the `size` ranks of a job. It is divided only by split_by(): there is nobody to ask for other ranks' colours.
std::unique_ptr<Communicator> make_counting_communicator(std::string name, int rank, int size);
/// The same ranks and name as `host`, which counts, too: what its device moves.
std::unique_ptr<Communicator> make_counting_communicator(const Communicator& host);

}  // namespace cohort
