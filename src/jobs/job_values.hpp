// What the placeholders of a template stand for.
#pragma once

#include <map>
#include <string>

#include "config/run_config.hpp"
#include "jobs/job.hpp"

namespace cohort {

/// Values of all placeholders: the keys that the site sets, and what follows from run, shape and request. `config` is the run,
/// validated for the layout's ranks. Throws Error(config or usage).
std::map<std::string, std::string> values_of_job(const JobRequest& request, const RunConfig& config, const JobShape& shape,
                                                 const std::string& run_folder);

/// The folder that the job's run writes to, as the job's shell reads it between double quotes: it may name variables.
std::string run_folder_of(const SiteProfile& site, const RunConfig& config);

}  // namespace cohort
