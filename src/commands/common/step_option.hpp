// Which checkpoint of a run a command reads: an option that all of them have.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "base/units.hpp"

namespace cohort {

/// --step N beside the path of a run; goes to resolve_checkpoint(). Without it the newest is read.
inline void add_step_option(CLI::App& command, std::optional<Count>& step) {
  command.add_option("--step", step, "Use the run's checkpoint of this step, not the newest")->check(CLI::NonNegativeNumber);
}

}  // namespace cohort
