// From a run file to its data set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/training_state.hpp"
#include "comm/communicator.hpp"
#include "config/run_config.hpp"
#include "data/batch.hpp"
#include "data/sampler.hpp"

namespace cohort {

/// The data of a run. `tokens` is null unless data.kind is "tokens". Of a mixture it is the first source, whose tokenizer all
/// have.
struct RunData {
  std::shared_ptr<const TokenFile> tokens;
  std::unique_ptr<Dataset> dataset;
  std::string description;                     // goes into checkpoints: what the run was trained on (data_record.hpp)
  std::string tokenizer = {};                  // the same: that of the tokens, serialised
  std::vector<std::int32_t> token_bytes = {};  // of each token: bytes_of_tokens()
  std::vector<TokenSourceFile> sources = {};   // of a mixture
};

/// What the data must be good for.
enum class DataUse { training, evaluation };

/// Opens the data that the run file names on every rank and fills config.model.vocabulary from it. Checks, the cheap first: the
/// file but for its tokens; for training that a step has enough samples and that sample.prompt can be encoded; that all ranks see
/// the same data; and of each rank's own copy as many tokens as are read in a moment, which is all of a small file. The others
/// are checked when they are first read (data/token_blocks.hpp). `model_of` is the checkpoint whose model the data is for, if
/// any: another tokenizer is an error. An error on any rank is an error on all. // Collective over: world
RunData open_data(Communicator& world, RunConfig& config, DataUse use, const TrainingState* model_of = nullptr);

/// The same on this process alone, without agreement and without config.model.vocabulary. Throws Error.
RunData open_data_here(const RunConfig& config);

/// Which samples the steps of a run take. Throws Error(config) if a step would need some sample twice.
Sampler sampler_of(const RunConfig& config, const Dataset& dataset);

/// Throws SharedError(data) if the model of a checkpoint has another tokenizer than `data`, which has tokens. Of a checkpoint
/// that does not tell, and was trained on other data, rank 0 says that it cannot be known.
void require_same_tokenizer(const RunData& data, const TrainingState& model_of);

/// The tokenizer of a checkpoint's model: that in the checkpoint; or, if it has none or `from_file`, that of the token file
/// config.data.tokens, which must be the model's. Fills config.model.vocabulary. Throws SharedError: io if there is no such file,
/// data if it has another tokenizer. // Collective over: world
std::shared_ptr<const Tokenizer> tokenizer_of_model(Communicator& world, RunConfig& config, const TrainingState& state,
                                                    bool from_file);

/// A line for each source of a mixture, with what it has and how often the run goes through it, and one for each stage; "" of
/// other data.
std::string describe_mixture(const RunConfig& config, const RunData& data);
/// Of that the stages alone, for which no file is opened.
std::string describe_stages(const RunConfig& config);

/// What to say at the start: most rows of the embedding are for tokens that the data does not have; the run goes through a source
/// of a mixture more than four times.
std::vector<std::string> data_warnings(const RunConfig& config, const RunData& data);

}  // namespace cohort
