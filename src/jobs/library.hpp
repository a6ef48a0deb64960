// The folder of templates and site profiles: jobs/ in the source tree, PREFIX/share/cohort/jobs where Cohort is installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

/// `given` if it is not empty, else the folder that belongs to the program: PREFIX/share/cohort/jobs of PREFIX/bin/cohort, or
/// jobs/ of the tree whose build/NAME/cohort it is. Throws Error(io) if there is none.
std::filesystem::path find_jobs_folder(const std::string& given, const std::filesystem::path& program);

/// FOLDER/templates/NAME.sbatch. Throws Error(usage) with the nearest name.
std::filesystem::path find_template(const std::filesystem::path& jobs, const std::string& name);

/// `site` is a file, if it has a '/' or ends in .env; else the name of FOLDER/sites/NAME.env. If it is empty: COHORT_SITE in the
/// environment, taken in the same way; else ~/.config/cohort/site.env if that is there; else "generic". Throws Error(usage).
std::filesystem::path find_site(const std::filesystem::path& jobs, const std::string& site);

/// The files of a kind in a folder, by name: (FOLDER/sites, ".env").
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const std::string& extension);

}  // namespace cohort
