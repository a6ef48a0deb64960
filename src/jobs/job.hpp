// A job script from a template, a site profile and a run file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "jobs/job_shape.hpp"
#include "jobs/site_profile.hpp"
#include "jobs/template.hpp"

namespace cohort {

/// A key of the run file that takes another value in each task of a job array.
struct Sweep {
  std::string key;  // section.key; "" = no sweep
  std::vector<std::string> values;
};

/// "optimizer.learning_rate=1e-3,3e-3". Throws Error(usage).
Sweep parse_sweep(const std::string& text);

struct JobRequest {
  JobTemplate source;
  SiteProfile site;
  std::string run_file;
  std::vector<std::string> overrides;  // section.key=value
  Count ranks = 0;                     // of the layout; 0 = as the run file or `nodes` say
  Count nodes = 0;                     // 0 = the fewest that hold the ranks
  Sweep sweep;
  std::filesystem::path program;  // the running program: what jobs start where the site names none
  bool program_has_cuda = false;
  std::string command;  // how the job was asked for, for its first comment
};

struct Job {
  std::string name;
  JobShape shape;
  std::string layout;  // "dp 4 x pp 1 x cp 1 x tp 1"; "" where the template does not train
  std::string time;    // limit
  std::string run_folder;
  std::string script;
};

/// Checks the run file for the ranks of the job, finds the shape and renders. Throws Error(config or usage) with what does not
/// fit and the nearest that does.
Job make_job(const JobRequest& request);

/// Seconds of a time limit as SLURM writes it: minutes, M:SS, H:MM:SS, D-H, D-H:MM, D-H:MM:SS. Throws Error(usage) naming
/// `origin`.
Count seconds_of_limit(const std::string& text, const std::string& origin);

}  // namespace cohort
