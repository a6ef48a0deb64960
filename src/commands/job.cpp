// `cohort job`: writes the job script of a run for a site, from a template, and asks SLURM whether it would take it. Runs on a
// login node or a laptop, without MPI.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/override_options.hpp"
#include "gpu/device.hpp"
#include "jobs/job.hpp"
#include "jobs/library.hpp"
#include "jobs/sbatch.hpp"
#include "jobs/shell_text.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobFooter =
    "A job script is a template (what the job does: one node, several, GPUs, a sweep ...) with what differs between clusters\n"
    "filled in from a site profile (partition, account, modules, NCCL ...) and what differs between runs from the run file: its\n"
    "layout says how many ranks there are, and so how many nodes, cores and GPUs the job asks for. The script is complete and\n"
    "commented line by line: read it before you submit it.\n"
    "\n"
    "  cohort job --list                                          templates and sites\n"
    "  cohort job --template single_node --site laptop --run inputs/demo.toml --ranks 2\n"
    "                                                             shows the script\n"
    "  cohort job --template multi_node --site laptop --run inputs/demo.toml --ranks 4 --nodes 2 --out demo.sbatch\n"
    "                                                             writes it, and asks `sbatch --test-only`\n"
    "  cohort job --template gpu --site mine.env --run inputs/gpt2_124m.toml --nodes 2 --time 4:00:00 --out gpt2.sbatch "
    "--submit\n"
    "  cohort job --template array_sweep --site laptop --run inputs/demo.toml --ranks 2 \\\n"
    "             --sweep optimizer.learning_rate=1e-3,3e-3 --out sweep.sbatch\n"
    "  cohort job --template reshard --site laptop --run inputs/demo.toml --ranks 4 --set parallel.tp=2\n"
    "\n"
    "--set section.key=value sets a key of the run file, as everywhere; --set KEY=value one of the site: --set PARTITION=gpu.\n"
    "The site is --site, else COHORT_SITE in the environment, else ~/.config/cohort/site.env, else generic. sites/generic.env\n"
    "explains every key; a profile of your own may begin with BASE=\"generic\" and set only what differs.\n"
    "\n"
    "Training jobs save a checkpoint before their time limit, requeue themselves and resume from it, until the run is\n"
    "done or a restart makes no progress.";

struct JobOptions {
  std::string template_name;
  std::string site;
  std::string run_file;
  std::vector<std::string> settings;
  Count ranks = 0;
  Count nodes = 0;
  std::string time;
  std::string sweep;
  std::string out;
  std::string jobs;
  std::string check = "yes";
  bool overwrite = false;
  bool submit = false;
  bool list = false;
};

int list_all(const fs::path& jobs) {
  Table templates({"template", ""});
  for (const fs::path& file : files_in(jobs / "templates", ".sbatch"))
    templates.add({file.stem().string(), read_template(file).facts.description});
  Table sites({"site", ""});
  for (const fs::path& file : files_in(jobs / "sites", ".env"))
    sites.add({file.stem().string(), read_site_profile(file, jobs / "sites").text("DESCRIPTION")});
  fmt::print("{}\n{}\nFrom {}; without --site: {}.\n", templates.str(2), sites.str(2), jobs.string(),
             find_site(jobs, "").string());
  return 0;
}

// The command again, for the first lines of the script. The folder of templates is left out where it is found by itself.
std::string command_of(const JobOptions& options) {
  std::vector<std::string> words{"cohort", "job", "--template", options.template_name};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--site", options.site);
  add("--run", options.run_file);
  add("--ranks", options.ranks == 0 ? "" : fmt::to_string(options.ranks));
  add("--nodes", options.nodes == 0 ? "" : fmt::to_string(options.nodes));
  add("--time", options.time);
  add("--sweep", options.sweep);
  for (const std::string& setting : options.settings) add("--set", setting);
  add("--jobs", options.jobs);
  const std::string command = shell_words(words);
  if (command.find('\n') != std::string::npos) fail(ExitCode::usage, "the command line contains a line break: remove it");
  return command;
}

// A key of the run file has a dot before the '='.
bool is_run_key(const std::string& setting) { return setting.substr(0, setting.find('=')).find('.') != std::string::npos; }

JobRequest request_of(const JobOptions& options, const fs::path& jobs) {
  JobRequest request;
  request.source = read_template(find_template(jobs, options.template_name));
  request.site = read_site_profile(find_site(jobs, options.site), jobs / "sites");
  request.run_file = options.run_file;
  for (const std::string& setting : options.settings) {
    if (is_run_key(setting)) {
      request.overrides.push_back(setting);
    } else {
      set_site_value(request.site, setting);
    }
  }
  if (!options.time.empty()) set_site_value(request.site, "TIME=" + options.time);
  request.ranks = options.ranks;
  request.nodes = options.nodes;
  if (!options.sweep.empty()) request.sweep = parse_sweep(options.sweep);
  request.program = program_file();
  request.program_has_cuda = gpu::built();
  request.command = command_of(options);
  return request;
}

std::string summary_of(const Job& job, const SiteProfile& site) {
  const JobShape& shape = job.shape;
  const std::string gpus = shape.gpus_per_node == 0 ? "" : fmt::format(", {} per node", counted(shape.gpus_per_node, "GPU"));
  return fmt::format("job {} for site {}: {} x {}, {} per rank{}{}; time limit {}; run folder {}", job.name, site.name,
                     counted(shape.nodes, "node"), counted(shape.tasks_per_node, "rank"), counted(shape.cpus_per_task, "core"),
                     gpus, job.layout.empty() ? "" : "; " + job.layout, job.time, job.run_folder);
}

void check_with_slurm(const JobOptions& options) {
  if (options.check == "no") return;
  if (!has_sbatch()) {
    fmt::print("not checked by SLURM: no sbatch on this machine\n");
    return;
  }
  const SbatchAnswer answer = test_with_sbatch(options.out);
  if (answer.exit_code != 0) {
    fail(ExitCode::launch, "sbatch --test-only {} refuses the job: {}. The file was written; --check no skips this check",
         options.out, join(split(answer.text, '\n'), "; "));
  }
  fmt::print("sbatch --test-only: {}\n", answer.text);
}

int write_job(const JobOptions& options) {
  if (options.template_name.empty() || options.run_file.empty())
    fail(ExitCode::usage, "--template and --run are required: `cohort job --list` shows templates, --help examples");
  if (options.submit && options.out.empty())
    fail(ExitCode::usage, "--submit needs --out FILE, so that the submitted script can be read");
  const fs::path out = options.out.empty() ? fs::path() : output_file("--out", options.out, options.overwrite);
  const fs::path jobs = find_jobs_folder(options.jobs, program_file());
  const JobRequest request = request_of(options, jobs);
  const Job job = make_job(request);
  if (options.out.empty()) {
    fmt::print("{}", job.script);
    fmt::print(stderr, "{}\nnot checked by SLURM: --out FILE writes the script and asks sbatch\n", summary_of(job, request.site));
    return 0;
  }
  write_file_atomically(out, job.script);
  fmt::print("{}\nwritten: {}\n", summary_of(job, request.site), options.out);
  check_with_slurm(options);
  if (!options.submit) return 0;
  const SbatchAnswer answer = submit_with_sbatch(options.out);
  if (answer.exit_code != 0) fail(ExitCode::launch, "sbatch {}: {}", options.out, join(split(answer.text, '\n'), "; "));
  fmt::print("{}\n", answer.text);
  return 0;
}

}  // namespace

void add_job_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("job", "Write a SLURM job script for a run: nodes, cores and GPUs follow from its layout");
  command->footer(kJobFooter);
  const auto options = std::make_shared<JobOptions>();
  command->add_option("--template", options->template_name, "What the job does");
  command->add_option("--site", options->site, "A site by its name, or the file of a profile")->type_name("SITE|FILE");
  command->add_option("--run", options->run_file, "The run file")->type_name("FILE");
  command->add_option("--ranks", options->ranks, "Ranks of the layout")->check(integer_from(1, 1 << 20));
  command->add_option("--nodes", options->nodes, "Nodes [the fewest that hold the ranks]")->check(integer_from(1, 1 << 20));
  command->add_option("--time", options->time, "Time limit, such as 30 (minutes), 2:00:00 or 1-12:00:00 [the site's]");
  command->add_option("--sweep", options->sweep, "Template array_sweep: section.key=value,value,...");
  command->add_option("--set", options->settings, "section.key=value of the run file, or KEY=value of the site (may be repeated)")
      ->type_name("KEY=VALUE")
      ->check(is_assignment())
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "Write the script into this file instead of showing it")->type_name("FILE");
  add_overwrite_option(*command, options->overwrite, "the script of --out");
  command->add_flag("--submit", options->submit, "Submit it");
  command->add_option("--check", options->check, "Check the job with sbatch --test-only, if sbatch is available: yes, no")
      ->check(CLI::IsMember({"yes", "no"}))
      ->capture_default_str();
  command->add_flag("--list", options->list, "List templates and sites");
  command->add_option("--jobs", options->jobs, "Folder of templates and sites [that of this program]");
  command->callback([&action, options] {
    action = [options] {
      if (!is_printing_rank()) return 0;
      return options->list ? list_all(find_jobs_folder(options->jobs, program_file())) : write_job(*options);
    };
  });
}

}  // namespace cohort
