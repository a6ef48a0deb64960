#include "jobs/library.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "base/shared_places.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path find_named(const fs::path& folder, const std::string& name, const std::string& extension, const std::string& what) {
  fs::path file = folder / (name + extension);
  if (name.find('/') == std::string::npos && is_file(file)) return file;
  std::vector<std::string> names;
  for (const fs::path& one : files_in(folder, extension)) names.push_back(one.stem().string());
  const std::string nearest = nearest_name(name, names);
  fail(ExitCode::usage, "no {} {} in {}{} (`cohort job --list` shows all)", what, name, folder.string(),
       nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest));
}

}  // namespace

fs::path find_jobs_folder(const std::string& given, const fs::path& program) {
  if (!given.empty()) {
    if (is_folder(fs::path(given) / "templates")) return given;
    fail(ExitCode::io, "--jobs {}: no folder {}/templates", given, given);
  }
  const auto places = shared_places(program, "jobs", "jobs");
  for (const fs::path& place : places) {
    if (is_folder(place / "templates")) return place;
  }
  fail(ExitCode::io, "no job templates: neither {} nor {} has a folder templates; name their folder with --jobs",
       places[0].string(), places[1].string());
}

fs::path find_template(const fs::path& jobs, const std::string& name) {
  return find_named(jobs / "templates", name, ".sbatch", "template");
}

fs::path find_site(const fs::path& jobs, const std::string& site) {
  std::string name = site.empty() ? from_environment("COHORT_SITE") : site;
  if (name.empty()) {
    const fs::path own = fs::path(from_environment("HOME")) / ".config/cohort/site.env";
    if (is_file(own)) return own;
    name = "generic";
  }
  if (name.find('/') == std::string::npos && !name.ends_with(".env")) return find_named(jobs / "sites", name, ".env", "site");
  if (!is_file(name)) fail(ExitCode::usage, "no site profile {}", name);
  return name;
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace cohort
