#include "checkpoint/store/missing_files.hpp"

#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

void collect_sources(const hdf5::Group& group, std::set<std::string>& sources) {
  for (const std::string& name : group.children()) {
    if (group.has_group(name)) {
      collect_sources(group.open_group(name), sources);
    } else if (group.name() != "/") {  // there lie the texts
      const std::vector<std::string> of_dataset = group.open_dataset(name).virtual_sources();
      sources.insert(of_dataset.begin(), of_dataset.end());
    }
  }
}

}  // namespace

std::vector<std::string> missing_files(const fs::path& folder, const Manifest& manifest) {
  std::vector<std::string> missing;
  for (const ManifestFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = static_cast<Bytes>(fs::file_size(folder / file.name, error));
    if (error) {
      missing.push_back(
          fmt::format("{} ({})", file.name, error == std::errc::no_such_file_or_directory ? "missing" : error.message()));
    } else if (bytes != file.bytes) {
      missing.push_back(fmt::format("{} ({} bytes of {})", file.name, bytes, file.bytes));
    }
  }
  return missing;
}

std::string missing_files_text(const std::vector<std::string>& missing, const Manifest& manifest) {
  return fmt::format("{} of its {} {} missing or truncated: {}; copy the whole folder again, or use another checkpoint",
                     missing.size(), counted(static_cast<Count>(manifest.files.size()), "file"),
                     missing.size() == 1 ? "is" : "are", first_few(missing));
}

std::string missing_sources_text(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / kModelFile, error)) return "";
  std::set<std::string> sources;
  try {
    collect_sources(hdf5::File::open((folder / kModelFile).string(), ExitCode::checkpoint), sources);
  } catch (const Error&) {
    return "";  // who asks says already that this is no checkpoint
  }
  std::vector<std::string> missing;
  for (const std::string& source : sources) {
    if (!fs::exists(folder / source, error)) missing.push_back(source);
  }
  if (missing.empty()) return "";
  return fmt::format("; {} is an index whose files are missing ({}): copy the whole folder", kModelFile, first_few(missing));
}

}  // namespace cohort
