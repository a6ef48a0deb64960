// A group of which there is one rank only, this one, for a thread that counts (base/counting.hpp): every operation is done at
// once, nothing is sent, and no other rank need exist. What was asked for is told to the observer (CommTrace), as in any group:
// that is the count. Buffers are not looked at.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

/// Rank `rank` of `size`. It is divided only by split_by(): there is nobody to ask for other ranks' colours.
std::unique_ptr<Communicator> make_counting_communicator(std::string name, int rank, int size);

}  // namespace cohort
