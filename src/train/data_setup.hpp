// From a run file to its data set.
#pragma once

#include <memory>

#include "config/run_config.hpp"
#include "data/batch.hpp"

namespace cohort {

/// The data of a run. `tokens` is null unless data.kind is "tokens".
struct RunData {
  std::shared_ptr<const TokenFile> tokens;
  std::unique_ptr<Dataset> dataset;
  std::string description;  // goes into checkpoints: what the run was trained on
};

/// Opens the data that the run file names, and fills config.model.vocabulary from it. `check_all_tokens` reads the whole file
/// once and compares its checksums: for one rank of a job. Not collective: call it inside agree().
RunData open_data(RunConfig& config, bool check_all_tokens);

}  // namespace cohort
