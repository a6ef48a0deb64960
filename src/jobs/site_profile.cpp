#include "jobs/site_profile.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "jobs/shell_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kDigits = "0123456789";
constexpr int kDeepestBase = 8;  // a chain of profiles as long as this goes in a circle

// One line taken apart: export NAME="value".
struct Assignment {
  bool is_export = false;
  std::string name;
  std::string value;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view text) {
  const std::string allowed = std::string(kNameLetters) + std::string(kDigits);
  return !text.empty() && kNameLetters.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of(allowed) == std::string_view::npos;
}

Assignment parse_assignment(std::string_view line, const std::string& place) {
  Assignment result;
  std::string_view rest = line;
  if (rest.starts_with("export ")) {
    result.is_export = true;
    rest = trimmed(rest.substr(7));
  }
  const std::size_t equals = rest.find('=');
  const std::string_view name = rest.substr(0, equals);
  if (equals == std::string_view::npos || !is_name(name)) {
    fail(ExitCode::config, "{}: `{}` is not a line of a site profile: write KEY=\"value\", export NAME=\"value\" or # a comment",
         place, line);
  }
  rest = rest.substr(equals + 1);
  const std::size_t end = rest.starts_with('"') ? rest.find('"', 1) : std::string_view::npos;
  if (end == std::string_view::npos) {
    fail(ExitCode::config, "{}: the value of {} must be in double quotes, without blanks around the '=': {}=\"value\"", place,
         name, name);
  }
  const std::string_view behind = trimmed(rest.substr(end + 1));
  if (!behind.empty() && !behind.starts_with('#'))
    fail(ExitCode::config, "{}: `{}` follows the value of {}; only a comment may", place, behind, name);
  result.name = name;
  result.value = rest.substr(1, end - 1);
  return result;
}

// A value that the job script can hold as it is. The description is for people.
void check_value(const std::string& name, const std::string& value, const std::string& place, ExitCode code) {
  if (name == "DESCRIPTION") return;
  if (const char mark = shell_mark_in(value); mark != '\0')
    fail(code, "{}: the value of {} contains '{}', which the job's shell would interpret: remove it", place, name, mark);
  if (value.find("$(") != std::string::npos)
    fail(code, "{}: the value of {} runs a command with $(...): name a variable instead", place, name);
}

void check_number(const SiteKey& key, const std::string& value, const std::string& place, ExitCode code) {
  if (!key.is_number || value.empty()) return;
  if (value.size() > 9 || value.find_first_not_of(kDigits) != std::string::npos)
    fail(code, "{}: {} = \"{}\" is not a whole number from 0 to 999999999 ({})", place, key.name, value, key.help);
}

const SiteKey& known_key(const std::string& name, const std::string& place, ExitCode code) {
  if (const SiteKey* key = find_site_key(name)) return *key;
  std::vector<std::string> names;
  for (const SiteKey& key : all_site_keys()) names.push_back(key.name);
  const std::string nearest = nearest_name(name, names);
  fail(
      code, "{}: a site profile has no key {}{}", place, name,
      nearest.empty() ? "; a variable of the job is set with export NAME=\"value\"" : fmt::format(": did you mean {}?", nearest));
}

void add_export(SiteProfile& profile, SiteExport one) {
  const auto same =
      std::find_if(profile.exports.begin(), profile.exports.end(), [&](const auto& e) { return e.name == one.name; });
  if (same == profile.exports.end()) {
    profile.exports.push_back(std::move(one));
  } else {
    *same = std::move(one);
  }
}

SiteProfile read_profile(const fs::path& file, const fs::path& sites, int depth);

SiteProfile read_base(const std::string& base, const std::string& place, const fs::path& beside, const fs::path& sites,
                      int depth) {
  if (depth == kDeepestBase) fail(ExitCode::config, "{}: BASE = \"{}\" is circular", place, base);
  for (const fs::path& folder : {beside, sites}) {
    const fs::path file = folder / (base + ".env");
    std::error_code error;
    if (fs::is_regular_file(file, error)) return read_profile(file, sites, depth + 1);
  }
  fail(ExitCode::config, "{}: no profile {}.env for BASE, neither next to this file nor in {}", place, base, sites.string());
}

SiteProfile read_profile(const fs::path& file, const fs::path& sites, int depth) {
  SiteProfile profile;
  std::map<std::string, int> own;  // names that this file has set, and the line
  std::vector<std::string> comment;
  int number = 0;
  for (const std::string& raw : split(read_file(file, "site profile"), '\n')) {
    const std::string place = fmt::format("{}:{}", file.string(), ++number);
    const std::string_view line = trimmed(raw);
    if (line.empty()) {
      comment.clear();
      continue;
    }
    if (line.front() == '#') {
      comment.emplace_back(line);
      continue;
    }
    Assignment set = parse_assignment(line, place);
    check_value(set.name, set.value, place, ExitCode::config);
    if (set.name == "BASE" && !set.is_export) {
      if (!own.empty()) fail(ExitCode::config, "{}: BASE must be the first key of a profile, which then overrides it", place);
      profile = read_base(set.value, place, file.parent_path(), sites, depth);
    }
    if (const auto [first, fresh] = own.emplace(set.name, number); !fresh)
      fail(ExitCode::config, "{}: {} was already set in line {}", place, set.name, first->second);
    if (set.is_export) {
      add_export(profile, {set.name, set.value, comment});
    } else if (set.name != "BASE") {
      check_number(known_key(set.name, place, ExitCode::config), set.value, place, ExitCode::config);
      profile.values[set.name] = {set.value, place};
    }
    comment.clear();
  }
  profile.name = file.stem().string();
  return profile;
}

}  // namespace

const std::vector<SiteKey>& all_site_keys() {
  static const std::vector<SiteKey> kKeys{
      {"DESCRIPTION", "one line for `cohort job --list`"},
      {"PARTITION", "queue that jobs go to; \"\" = the cluster's default"},
      {"ACCOUNT", "project that is charged; \"\" = your default"},
      {"QOS", "quality of service: priority and limits; \"\" = your default"},
      {"CONSTRAINT", "feature that nodes must have; \"\" = any node"},
      {"MAIL_TYPE", "when SLURM sends mail: BEGIN, END, FAIL, REQUEUE, separated by commas; \"\" = never"},
      {"MAIL_USER", "who gets it; \"\" = you"},
      {"TIME", "time limit of a job unless --time says another", false, true},
      {"SIGNAL_SECONDS", "seconds before the limit at which a run is told to save and end", true, true},
      {"RESTARTS", "most times that a job restarts itself", true, true},
      {"NODES_MAX", "most nodes per job; \"\" = unknown", true},
      {"CPUS_PER_NODE", "CPUs per node as SLURM counts them (sinfo -o %c); \"\" = unknown", true},
      {"GPUS_PER_NODE", "GPUs per node; 0 = none, \"\" = unknown", true},
      {"GPU_TYPE", "name of the GPUs in SLURM (sinfo -o %G); \"\" = any"},
      {"CPUS_PER_GPU", "CPUs of a rank that has a GPU", true},
      {"MEMORY_PER_NODE", "memory to ask for on each node, as 200G; 0 = all of it, \"\" = the cluster's default"},
      {"MPI", "how srun tells ranks who they are (srun --mpi=list)", false, true},
      {"SRUN_FLAGS", "more flags for srun, mostly for binding"},
      {"MODULES_INIT", "file that defines the command `module` where job scripts do not have it; \"\" = not needed"},
      {"MODULES", "modules to load, separated by blanks; \"\" = none"},
      {"COHORT", "the program on the nodes; \"\" = the one that rendered the job"},
      {"SCRATCH", "large fast folder that all nodes see, for run folders; \"\" = where the run file says"},
      {"CHECKPOINT_SITE", "checkpoint.site of a run file that does not set it: local, nfs or lustre; \"\" = leave it"},
  };
  return kKeys;
}

const SiteKey* find_site_key(std::string_view name) {
  const auto& keys = all_site_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const SiteKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

const std::string& SiteProfile::text(const std::string& key) const {
  static const std::string kNothing;
  COHORT_CHECK(find_site_key(key) != nullptr, "{} is not a key of a site profile", key);
  const auto found = values.find(key);
  return found == values.end() ? kNothing : found->second.text;
}

Count SiteProfile::number(const std::string& key) const {
  const std::string& digits = text(key);
  Count value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);  // digits alone: checked when it was read
  return value;
}

SiteProfile read_site_profile(const fs::path& file, const fs::path& sites) { return read_profile(file, sites, 0); }

void set_site_value(SiteProfile& profile, const std::string& text) {
  const std::string place = "--set " + text;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos)
    fail(ExitCode::usage, "{}: write KEY=value for the site, section.key=value for the run file", place);
  const std::string name = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  const SiteKey& key = known_key(name, place, ExitCode::usage);
  check_value(name, value, place, ExitCode::usage);
  check_number(key, value, place, ExitCode::usage);
  profile.values[name] = {value, place};
}

}  // namespace cohort
