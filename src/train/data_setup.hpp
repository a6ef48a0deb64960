// From a run file to its data set.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "data/batch.hpp"

namespace cohort {

/// The data of a run. `tokens` is null unless data.kind is "tokens".
struct RunData {
  std::shared_ptr<const TokenFile> tokens;
  std::unique_ptr<Dataset> dataset;
  std::string description;  // goes into checkpoints: what the run was trained on
};

/// What the data must be good for.
enum class DataUse { training, evaluation };

/// Opens the data that the run file names on every rank and fills config.model.vocabulary from it. Rank 0 reads the whole file
/// once and compares its checksums. For training it also checks that a step has enough samples and that sample.prompt can be
/// encoded. An error on any rank is an error on all, and so are ranks that see different data. // Collective over: world
RunData open_data(Communicator& world, RunConfig& config, DataUse use);

/// What to say at the start if most rows of the embedding are for tokens that the data does not have; "" if most are used.
std::string unused_rows_warning(const RunConfig& config, const RunData& data);

}  // namespace cohort
