#include "commands/common/open_world.hpp"

#include <string>

#include "base/error.hpp"
#include "comm/consensus.hpp"
#include "comm/mpi_communicator.hpp"

namespace cohort {
namespace {

// Without the name of the program: nodes may have it in different places.
std::string& command_line() {
  static std::string words;
  return words;
}

}  // namespace

void set_command_line(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) command_line() += fmt::format("{}{}", i > 1 ? " " : "", argv[i]);
}

std::unique_ptr<Communicator> open_world() {
  std::unique_ptr<Communicator> world = make_world_communicator();
  const std::string difference = difference_between_ranks(*world, "cohort " + command_line());
  if (!difference.empty()) {
    throw SharedError(ExitCode::usage,
                      fmt::format("the command line differs between ranks: {}: start all ranks with the same", difference));
  }
  return world;
}

}  // namespace cohort
