// The files that commands write where they are told to: none replaces another without a word.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

namespace cohort {

/// Where to write what `option` ("--out") names, to be asked before any work is done: `path` itself, or what it is a link to.
/// Throws Error(usage) if there is a file and not `overwrite`, or something that is not a plain file; Error(io) if it is a
/// folder.
std::filesystem::path output_file(const std::string& option, const std::filesystem::path& path, bool overwrite);

/// --overwrite, for a command that writes such files.
inline void add_overwrite_option(CLI::App& command, bool& overwrite, const std::string& what) {
  command.add_flag("--overwrite", overwrite, "Replace " + what + ", if it exists");
}

}  // namespace cohort
