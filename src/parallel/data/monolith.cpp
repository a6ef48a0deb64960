#include "parallel/data/monolith.hpp"

namespace cohort {

Monolith::Monolith(Model& model, Communicator& group) : DataParallel(model, group) {
  if (group.size() != 1)
    fail(ExitCode::config, "parallel.data = \"monolith\" runs on one rank, not {}: start it without mpirun", group.size());
}

}  // namespace cohort
