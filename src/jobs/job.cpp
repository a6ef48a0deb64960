#include "jobs/job.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "config/validate.hpp"
#include "jobs/job_values.hpp"
#include "mesh/mesh_shape.hpp"

namespace cohort {
namespace {

using Tasks = TemplateFacts::Tasks;

void check_keys_of_site(const JobTemplate& source, const SiteProfile& site) {
  for (const Placeholder& one : placeholders_of(source)) {
    const SiteKey* key = find_site_key(one.name);
    if (key == nullptr) continue;
    if (site.values.count(one.name) == 0)
      fail(ExitCode::config, "{}: uses @{}@, which site {} does not set ({}): add {}=\"...\" to the profile, or --set {}=...",
           one.place, one.name, site.name, key->help, one.name, one.name);
    if (key->must_say && !site.says(one.name))
      fail(ExitCode::config, "{}: {} must not be empty ({})", site.values.at(one.name).origin, one.name, key->help);
  }
}

void check_sweep(const JobRequest& request) {
  const bool wanted = uses(request.source, "SWEEP_VALUES");
  if (wanted && request.sweep.key.empty())
    fail(ExitCode::usage, "template {} runs one value per task: give them with --sweep optimizer.learning_rate=1e-3,3e-3",
         request.source.name);
  if (!wanted && !request.sweep.key.empty())
    fail(ExitCode::usage, "--sweep needs the template array_sweep, not {}", request.source.name);
}

// The signal must leave time for training before it and for saving after it. SLURM may send it up to a minute early.
void check_time(const JobRequest& request) {
  const SiteValue& time = request.site.values.at("TIME");
  const Count seconds = seconds_of_limit(time.text, time.origin);
  if (!uses(request.source, "SIGNAL_SECONDS")) return;
  const Count signal = request.site.number("SIGNAL_SECONDS");
  if (seconds >= signal + 120) return;
  fail(ExitCode::config,
       "a time limit of {}: the run is told to save and end {} s before it (SIGNAL_SECONDS), and SLURM may do so a minute early; "
       "use {} or more",
       human_seconds(static_cast<double>(seconds)), signal, human_seconds(static_cast<double>(signal + 120)));
}

NodeLimits limits_of(const SiteProfile& site) {
  NodeLimits limits;
  limits.site = site.name;
  limits.cpus = site.number("CPUS_PER_NODE");
  if (site.says("GPUS_PER_NODE")) limits.gpus = site.number("GPUS_PER_NODE");
  limits.cpus_per_gpu = site.number("CPUS_PER_GPU");
  limits.most_nodes = site.number("NODES_MAX");
  return limits;
}

ShapeRequest shape_request_of(const JobRequest& request) {
  const TemplateFacts& facts = request.source.facts;
  return {request.ranks, request.nodes, facts.least_nodes, facts.most_nodes, request.source.name};
}

// A program that takes any number of ranks does not care for the layout and the batch of the training that it looks at.
RunConfig without_layout(RunConfig config) {
  config.parallel = {};
  config.train.global_batch = 0;
  config.train.accumulation = 1;
  std::erase_if(config.origins, [](const auto& origin) { return origin.first.starts_with("parallel."); });
  return config;
}

// Ranks of a layout that no job of that size runs: only written down.
Count ranks_of_layout(const JobRequest& request, const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  return request.ranks > 0 ? request.ranks : MeshShape(std::max<Count>(1, p.dp), p.pp, p.cp, p.tp).world();
}

// Fills the run's open values for the job; returns the job's shape.
JobShape resolve(RunConfig& config, const JobRequest& request) {
  const BuildFeatures any_build{.cuda = true};  // a laptop may write jobs for a cluster's GPUs
  const TemplateFacts& facts = request.source.facts;
  const NodeLimits limits = limits_of(request.site);
  ShapeRequest wanted = shape_request_of(request);
  if (config.device.kind == "auto") {
    const bool on_gpus = limits.gpus.value_or(0) > 0 && (request.program_has_cuda || request.site.says("COHORT"));
    config.device.kind = facts.needs_gpus || on_gpus ? "cuda" : "cpu";
  }
  if (facts.needs_gpus && config.device.kind != "cuda")
    fail(ExitCode::config,
         "template {} is for GPUs, but {} says device.kind = \"{}\": --set device.kind=cuda, or another template",
         request.source.name, request.run_file, config.device.kind);
  if (facts.tasks == Tasks::layout) {
    const JobShape shape = shape_of_job(config, wanted, limits);
    validate(config, shape.ranks(), any_build);
    return shape;
  }
  if (facts.tasks == Tasks::any) {
    config = without_layout(config);
    if (wanted.ranks == 0 && wanted.nodes == 0) wanted.ranks = 1;
    const JobShape shape = shape_of_job(config, wanted, limits);
    validate(config, shape.ranks(), any_build);
    return shape;
  }
  if (request.nodes > 1) fail(ExitCode::config, "template {} runs on one node", request.source.name);
  const bool has_layout = uses(request.source, "LAYOUT");
  if (!has_layout) config = without_layout(config);
  validate(config, has_layout ? ranks_of_layout(request, config) : 1, any_build);
  config.device = {};  // files are all that it works on
  return {};
}

void check_sweep_values(const JobRequest& request, Count ranks) {
  for (const std::string& value : request.sweep.values) {
    std::vector<std::string> overrides = request.overrides;
    overrides.push_back(request.sweep.key + "=" + value);
    RunConfig config = load_run_file(request.run_file, overrides);
    config.run.name += "-" + value;  // as the template names the runs
    validate(config, ranks, {.cuda = true, .gpus = true});
  }
}

}  // namespace

Sweep parse_sweep(const std::string& text) {
  Sweep sweep;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    fail(ExitCode::usage, "--sweep {}: write section.key=value,value,...", text);
  sweep.key = text.substr(0, equals);
  sweep.values = split(text.substr(equals + 1), ',');
  if (find_key(sweep.key) == nullptr) {
    std::vector<std::string> names;
    for (const KeySpec& key : all_keys()) names.push_back(key.full_name());
    const std::string nearest = nearest_name(sweep.key, names);
    fail(ExitCode::usage, "--sweep {}: a run file has no key {}{}", text, sweep.key,
         nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest));
  }
  if (sweep.key == "run.name" || sweep.key == "run.directory")
    fail(ExitCode::usage, "--sweep {}: each task already names its run after its value; sweep another key", text);
  for (auto value = sweep.values.begin(); value != sweep.values.end(); ++value) {
    if (std::find(sweep.values.begin(), value, *value) != value)
      fail(ExitCode::usage, "--sweep {}: {} comes twice, and both tasks would write to one folder", text, *value);
  }
  return sweep;
}

Count seconds_of_limit(const std::string& text, const std::string& origin) {
  const std::size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<std::string> parts = split(has_days ? text.substr(dash + 1) : text, ':');
  if (has_days) parts.insert(parts.begin(), text.substr(0, dash));
  const auto is_number = [](const std::string& part) {
    return !part.empty() && part.size() <= 5 && part.find_first_not_of("0123456789") == std::string::npos;
  };
  const bool is_limit = !text.empty() && parts.size() <= (has_days ? 4u : 3u) && parts.size() >= (has_days ? 2u : 1u) &&
                        !text.ends_with(':') && std::all_of(parts.begin(), parts.end(), is_number);
  if (!is_limit) {
    fail(ExitCode::usage, "{}: '{}' is not a time limit: write minutes, H:MM:SS or D-H:MM:SS, such as 30, 2:00:00 or 1-12:00:00",
         origin, text);
  }
  // What each part counts, in seconds. Without days one part is minutes, and two are minutes and seconds, although people may
  // mean hours.
  static constexpr std::array<Count, 4> kUnits{86400, 3600, 60, 1};
  const std::size_t first = has_days ? 0 : parts.size() == 3 ? 1 : 2;
  Count seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) seconds += std::stol(parts[i]) * kUnits[first + i];
  return seconds;
}

Job make_job(const JobRequest& request) {
  check_keys_of_site(request.source, request.site);
  check_sweep(request);
  check_time(request);
  RunConfig config = load_run_file(request.run_file, request.overrides);
  const JobShape shape = resolve(config, request);
  check_sweep_values(request, shape.ranks());
  Job job;
  job.shape = shape;
  job.name = config.run.name;
  job.run_folder = run_folder_of(request.site, config);
  const std::map<std::string, std::string> values = values_of_job(request, config, shape, job.run_folder);
  job.time = values.at("TIME");
  if (request.source.facts.tasks == Tasks::layout) {
    const ParallelSection& p = config.parallel;
    job.layout = MeshShape(p.dp, p.pp, p.cp, p.tp).str();
  }
  job.script = render(request.source, values);
  return job;
}

}  // namespace cohort
