#include "jobs/job_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/schema.hpp"
#include "jobs/shell_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

void require_quotable(const std::string& text, const std::string& what) {
  if (const char mark = shell_mark_in(text); mark != '\0')
    fail(ExitCode::config, "{} = {} contains '{}', which the job's shell would interpret: choose another", what, text, mark);
}

// A line of the job that ends it with a message, unless the command succeeds: without the site's software nothing else would be
// right.
std::string required(const std::string& command, const std::string& complaint) {
  return fmt::format("{} || {{ echo \"cohort: {}\" >&2; exit {}; }}", command, complaint, static_cast<int>(ExitCode::launch));
}

// Modules and variables, with the reasons that the profile gives beside them.
std::string environment_of(const SiteProfile& site) {
  std::vector<std::string> lines;
  if (site.says("MODULES_INIT")) {
    lines.emplace_back("# defines the command `module`, which job scripts lack here");
    const std::string& init = site.text("MODULES_INIT");
    lines.push_back(required(fmt::format("[[ -r \"{}\" ]]", init),
                             fmt::format("$HOSTNAME has no file {}, the MODULES_INIT of site {}", init, site.name)));
    lines.push_back(fmt::format("source \"{}\"", init));
  }
  if (site.says("MODULES")) {
    lines.emplace_back(
        "# the site's software: drops whatever was loaded when the job was submitted, then loads what Cohort needs");
    lines.emplace_back("module purge");
    lines.push_back(required("module load " + site.text("MODULES"),
                             fmt::format("$HOSTNAME cannot load the MODULES of site {}: {}", site.name, site.text("MODULES"))));
  }
  for (const SiteExport& one : site.exports) {
    lines.insert(lines.end(), one.comment.begin(), one.comment.end());
    lines.push_back(fmt::format("export {}=\"{}\"", one.name, one.value));
  }
  return join(lines, "\n");
}

// The program that nodes start: the site's, else this one, by a relative path if it lies below the folder that jobs are submitted
// from.
std::string program_of(const JobRequest& request, const RunConfig& config) {
  if (request.site.says("COHORT")) return request.site.text("COHORT");
  if (config.device.kind == "cuda" && !request.program_has_cuda) {
    fail(ExitCode::config,
         "device.kind = \"cuda\", but {} was built without CUDA: name the program on the nodes with --set "
         "COHORT=build/cuda/cohort, or in the site profile",
         request.program.string());
  }
  const fs::path near = request.program.lexically_proximate(fs::current_path());
  const std::string program = near.string().starts_with("..") ? request.program.string() : near.string();
  require_quotable(program, "the program");
  return program;
}

// The layout as `cohort ckpt reshard --layout` takes it: all degrees, and what the run sets of [parallel].
std::string layout_of(const RunConfig& config) {
  std::vector<std::string> words;
  for (const KeySpec& key : all_keys()) {
    if (key.section != "parallel") continue;
    const bool is_degree = key.name == "dp" || key.name == "pp" || key.name == "cp" || key.name == "tp";
    const bool is_plain_string = std::holds_alternative<Choices>(key.allowed);
    if (!is_degree && config.origins.count(key.full_name()) == 0) continue;
    std::string value = value_as_toml(key, config);
    if (is_plain_string) value = value.substr(1, value.size() - 2);
    words.push_back(key.name + "=" + value);
  }
  return shell_word(join(words, ","));
}

std::vector<std::string> run_words(const JobRequest& request, const RunConfig& config) {
  std::vector<std::string> words;
  for (const std::string& text : request.overrides) words.insert(words.end(), {"--set", text});
  if (request.site.says("CHECKPOINT_SITE") && config.origins.count("checkpoint.site") == 0)
    words.insert(words.end(), {"--set", "checkpoint.site=" + request.site.text("CHECKPOINT_SITE")});
  return words;
}

}  // namespace

std::string run_folder_of(const SiteProfile& site, const RunConfig& config) {
  const bool chosen = config.origins.count("run.directory") > 0;
  const std::string folder =
      !chosen && site.says("SCRATCH") ? site.text("SCRATCH") + "/runs/" + config.run.name : config.run.directory;
  require_quotable(folder, "run.directory");
  return folder;
}

std::map<std::string, std::string> values_of_job(const JobRequest& request, const RunConfig& config, const JobShape& shape,
                                                 const std::string& run_folder) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : request.site.values) values[key] = value.text;
  const std::string& gpu_type = request.site.text("GPU_TYPE");
  values["COHORT"] = program_of(request, config);
  values["ENVIRONMENT"] = environment_of(request.site);
  values["COMMAND"] = request.command;
  values["RUN_NAME"] = config.run.name;
  values["RUN_FILE"] = shell_word(request.run_file);
  values["RUN_FOLDER"] = run_folder;
  values["RUN_WORDS"] = shell_words(run_words(request, config));
  values["LAYOUT"] = layout_of(config);
  values["NODES"] = fmt::to_string(shape.nodes);
  values["TASKS_PER_NODE"] = fmt::to_string(shape.tasks_per_node);
  values["CPUS_PER_TASK"] = fmt::to_string(shape.cpus_per_task);
  values["GPUS"] = shape.gpus_per_node == 0 ? ""
                   : gpu_type.empty()       ? fmt::to_string(shape.gpus_per_node)
                                            : fmt::format("{}:{}", gpu_type, shape.gpus_per_node);
  if (!request.sweep.key.empty()) {
    values["SWEEP_KEY"] = shell_word(request.sweep.key);
    values["SWEEP_VALUES"] = shell_words(request.sweep.values);
    values["ARRAY"] = fmt::format("0-{}", request.sweep.values.size() - 1);
  }
  return values;
}

}  // namespace cohort
