#include "commands/common/output_file.hpp"

#include <system_error>

#include "base/error.hpp"

namespace cohort {

namespace fs = std::filesystem;

fs::path output_file(const std::string& option, const fs::path& path, bool overwrite) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return path;
  if (fs::is_directory(status)) fail(ExitCode::io, "{} {}: it is a folder; name a file in it", option, path.string());
  if (!fs::is_regular_file(status)) fail(ExitCode::usage, "{} {}: not a regular file; name another", option, path.string());
  if (!overwrite) {
    fail(ExitCode::usage, "{} {}: the file exists; name another, or replace it with --overwrite", option, path.string());
  }
  return fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
}

}  // namespace cohort
