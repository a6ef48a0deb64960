// Reading a run file: TOML text and --set overrides become a RunConfig. Values are checked one by one here (type, range, known
// names); how they fit each other and the number of ranks is validate()'s business (config/validate.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"

namespace cohort {

/// Reads the run file, then applies the overrides in order (a later one wins): "section.key=value" sets a key, "unset
/// section.key" gives it its default again. A value is TOML; for a key that takes a string the quotes may be left out, and an
/// integer may be written as 1e3. Throws Error(io) if the file cannot be read, else Error(config) naming file and line (or the
/// text of the override), what was found and what is allowed.
RunConfig load_run_file(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// One override of load_run_file().
void apply_override(RunConfig& config, const std::string& text);

/// The override of one key of a section, as --set would make it of `value`. `where` begins the messages.
void apply_override(RunConfig& config, const std::string& section, const std::string& name, const std::string& value,
                    const std::string& where);

/// load_run_file() from text; `source` stands for the file name in messages.
RunConfig parse_run_file(std::string_view text, const std::string& source, const std::vector<std::string>& overrides = {});

/// parse_run_file() of what a checkpoint keeps, perhaps of an earlier version: keys that have been replaced since count as their
/// successors. (In a run file of today they are errors that name those.)
RunConfig parse_saved_run_file(std::string_view text, const std::string& source, const std::vector<std::string>& overrides = {});

}  // namespace cohort
