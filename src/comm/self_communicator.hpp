// The group of one rank: every collective is a copy or nothing. Needs no MPI, so that one rank can train without a launcher.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace cohort {

std::unique_ptr<Communicator> make_self_communicator(std::string name);

}  // namespace cohort
