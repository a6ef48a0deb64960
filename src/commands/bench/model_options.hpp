// The options of `cohort bench` that say which step is timed.
#pragma once

#include <CLI/CLI.hpp>

#include "config/run_config.hpp"

namespace cohort {

/// What `config` says is the default; it must live as long as the command.
void add_model_options(CLI::App& command, RunConfig& config);

/// Reads no data, whatever `config` says of it: its tokens are random. Sets what the overrides say and validates it for so many
/// ranks.
void settle_bench_config(RunConfig& config, const std::vector<std::string>& overrides, int ranks);

}  // namespace cohort
