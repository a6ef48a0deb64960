// Writing a configuration out: as a run file, and as a table of all keys for the command line's help and for the documentation.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace cohort {

/// A run file with every key, its value and its help. It parses back to an equal RunConfig. Keys that have no effect in this run
/// and are at their defaults are written as comments, since setting them is refused.
std::string to_toml(const RunConfig& config);

/// All keys by section: default, what is allowed, help. For a terminal of 100 columns.
std::string describe_keys();

/// The same as Markdown: a heading and a table for each section.
std::string keys_as_markdown();

}  // namespace cohort
