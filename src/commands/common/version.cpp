#include "commands/common/version.hpp"

#include "build_facts.hpp"

namespace cohort {

std::string cohort_version() { return std::string(build_facts::kVersion); }
std::string git_revision() { return std::string(build_facts::kRevision); }

}  // namespace cohort
