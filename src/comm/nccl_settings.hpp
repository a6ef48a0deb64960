// NCCL's settings: the variables NCCL_*, which come from the environment and from files, and decide which network it takes, which
// algorithms, and what it says. A job that is slow on one node has often other settings there.
//
// NCCL reads, in this order, the first that names a variable counting (NCCL user guide, "Environment variables"): the
// environment; the file in NCCL_CONF_FILE, else ~/.nccl.conf; /etc/nccl.conf. Lines of the files are NAME=VALUE, those that begin
// with # are comments.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

struct NcclSetting {
  std::string name;  // "NCCL_DEBUG"
  std::string value;
  std::string from;    // "environment", "Cohort", or a file
  bool counts = true;  // false: an earlier source has the same name
};

/// What one of NCCL's files says.
std::vector<NcclSetting> parse_nccl_file(std::string_view text, const std::string& from);

/// All settings of this process, those that count sorted by name, each followed by those that it hides.
std::vector<NcclSetting> nccl_settings();
/// "NCCL_DEBUG=INFO (environment)"; of one that is hidden "... (/etc/nccl.conf, hidden)".
std::string describe(const NcclSetting& setting);

/// If NCCL_DEBUG asks for messages and NCCL_DEBUG_FILE does not say where to, sends those of this rank to
/// RUN/logs/rank_N/nccl.log, which NCCL overwrites: without it the messages of all ranks mix on the console. Returns the file, or
/// nothing if there is nothing to send. Call it before NCCL is first used. Throws Error(io).
std::optional<std::filesystem::path> capture_nccl_messages(const std::filesystem::path& run_directory, int rank);

}  // namespace cohort
