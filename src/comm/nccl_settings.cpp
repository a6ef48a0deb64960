#include "comm/nccl_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/file.hpp"

extern char** environ;

namespace cohort {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "NCCL_";

// Set by this process itself, which the environment does not tell.
std::set<std::string>& set_by_cohort() {
  static std::set<std::string> names;
  return names;
}

std::vector<NcclSetting> settings_of_environment() {
  std::vector<NcclSetting> settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    std::string name(text.substr(0, equals));
    const bool own = set_by_cohort().contains(name);
    settings.push_back({std::move(name), std::string(text.substr(equals + 1)), own ? "Cohort" : "environment"});
  }
  return settings;
}

std::vector<fs::path> nccl_files() {
  std::vector<fs::path> files;
  const char* const named = std::getenv("NCCL_CONF_FILE");
  const char* const home = std::getenv("HOME");
  if (named != nullptr && *named != '\0') {
    files.emplace_back(named);
  } else if (home != nullptr) {
    files.push_back(fs::path(home) / ".nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

// The value that NCCL will find.
std::optional<std::string> value_of(const std::string& name) {
  for (const NcclSetting& setting : nccl_settings()) {
    if (setting.name == name && setting.counts) return setting.value;
  }
  return std::nullopt;
}

// NCCL takes %h and %p of the name for the host and the process.
std::string with_percents_doubled(const std::string& text) {
  std::string doubled;
  for (const char c : text) doubled += c == '%' ? "%%" : std::string(1, c);
  return doubled;
}

std::string in_upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  return text;
}

}  // namespace

std::vector<NcclSetting> parse_nccl_file(std::string_view text, const std::string& from) {
  std::vector<NcclSetting> settings;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos || !line.starts_with(kPrefix)) continue;
    settings.push_back({line.substr(0, equals), line.substr(equals + 1), from});
  }
  return settings;
}

std::vector<NcclSetting> nccl_settings() {
  std::vector<NcclSetting> settings = settings_of_environment();
  for (const fs::path& file : nccl_files()) {
    std::ifstream stream(file);  // most machines have none
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    for (NcclSetting& setting : parse_nccl_file(text, file.string())) settings.push_back(std::move(setting));
  }
  std::stable_sort(settings.begin(), settings.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < settings.size(); ++i) settings[i].counts = settings[i].name != settings[i - 1].name;
  return settings;
}

std::string describe(const NcclSetting& setting) {
  return fmt::format("{}={} ({}{})", setting.name, setting.value, setting.from, setting.counts ? "" : ", hidden");
}

std::optional<fs::path> capture_nccl_messages(const fs::path& run_directory, int rank) {
  const std::string level = in_upper_case(value_of("NCCL_DEBUG").value_or(""));
  // NCCL writes its version, alone, to the console in any case.
  if (level.empty() || level == "NONE" || level == "VERSION" || value_of("NCCL_DEBUG_FILE")) return std::nullopt;
  fs::path file = fs::absolute(run_directory) / "logs" / fmt::format("rank_{}", rank) / "nccl.log";
  make_folders(file.parent_path());
  setenv("NCCL_DEBUG_FILE", with_percents_doubled(file.string()).c_str(), /*overwrite=*/0);
  set_by_cohort().insert("NCCL_DEBUG_FILE");
  return file;
}

}  // namespace cohort
