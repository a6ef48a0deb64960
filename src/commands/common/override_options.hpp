// --set and --unset: the keys of a run file on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cohort {

/// Adds both to `command`. What is given goes to `overrides` in the form that load_run_file() takes: what --unset names comes
/// first, so that --set has the last word wherever it stands.
void add_override_options(CLI::App& command, std::vector<std::string>& overrides);

/// Refuses a word without '=': what a shell makes of `--set model.heads 8`.
CLI::Validator is_assignment();

}  // namespace cohort
