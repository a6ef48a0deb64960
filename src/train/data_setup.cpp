#include "train/data_setup.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "config/validate.hpp"
#include "data/sampler.hpp"
#include "observe/flight_recorder.hpp"
#include "runtime/failure_exit.hpp"
#include "train/data_record.hpp"
#include "train/evaluate.hpp"

namespace cohort {
namespace {

// Of each rank's copy, at the start: well below a second from any disk.
constexpr Bytes kCheckedAtStart = 64 * kMiB;

RunData open_on_this_rank(const RunConfig& config) {
  RunData data;
  if (config.data.kind == "two_moons") {
    data.dataset = std::make_unique<TwoMoonsDataset>(config.run.seed, config.model.inputs, config.data.samples);
    data.description =
        fmt::format("two_moons samples={} inputs={} seed={}", config.data.samples, config.model.inputs, config.run.seed);
    return data;
  }
  data.tokens = std::make_shared<const TokenFile>(config.data.tokens);
  data.dataset = std::make_unique<TokenDataset>(data.tokens, config.model.context);
  data.description = record_of(*data.tokens);
  data.tokenizer = data.tokens->tokenizer().serialise();
  data.token_bytes = bytes_of_tokens(data.tokens->tokenizer());
  return data;
}

void check_for_training(const RunConfig& config, const RunData& data) {
  Sampler(data.dataset->samples(Split::train), config.run.seed, config.train.global_batch, data.dataset->name());
  if (data.tokens && !config.sample.prompt.empty()) data.tokens->tokenizer().encode(config.sample.prompt, "sample.prompt");
}

// What must be the same on all ranks, a fact a line.
std::string facts_of(const RunConfig& config, const RunData& data) {
  if (!data.tokens) return fmt::format("{}, model.vocabulary = {}", data.description, config.model.vocabulary);
  const TokenFile& file = *data.tokens;
  std::string facts = fmt::format("a tokenizer of {}\n", tokenizer_of_record(data.description));
  for (const Split split : {Split::train, Split::validation})
    facts += fmt::format("/{} of {} tokens, crc32={:08x}\n", name_of(split), file.tokens(split), file.crc32(split));
  if (!file.chat_template().empty())
    facts += fmt::format("conversations by {}, counted={:08x},{:08x}\n", file.chat_template(), file.counted_crc32(Split::train),
                         file.counted_crc32(Split::validation));
  return facts;
}

// Collective over: world
void check_some_tokens(Communicator& world, const TokenFile& file) {
  bool all = true;
  fail_together(world, "verifying the token file", [&] { all = file.verify_within(kCheckedAtStart); });
  if (all || file.version() > 1 || world.rank() != 0) return;
  print_error_line(
      fmt::format("note: {} is a token file of version 1, without block checksums: each rank reads a whole split before it first "
                  "uses it; prepare the text again to avoid that",
                  file.path()));
}

}  // namespace

void require_same_tokenizer(const RunData& data, const TrainingState& model_of) {
  const std::string& trained_on = model_of.data;
  const std::string before = tokenizer_of(model_of), now = tokenizer_of_record(data.description);
  if (before == now) return;
  if (before.empty()) {
    const bool other = !trained_on.empty() && !data_changes(trained_on, data.description).empty();
    if (other && is_printing_rank())
      print_error_line("note: the checkpoint does not record its tokenizer; if it differs from that of " + data.tokens->path() +
                       ", the token ids mean different text");
    return;
  }
  throw SharedError(ExitCode::data,
                    fmt::format("{}: its tokenizer ({}) is not that of the model ({}), for which its token ids mean different "
                                "text; prepare the text again with: --tokenizer FILE.h5, a token file of the model's run",
                                data.tokens->path(), now, before));
}

RunData open_data(Communicator& world, RunConfig& config, DataUse use, const TrainingState* model_of) {
  FlightRecorder::of_process().set_activity("opening the data");
  RunData data;
  fail_together(world, "opening the data", [&] {
    data = open_on_this_rank(config);
    if (use == DataUse::training) check_for_training(config, data);
  });
  // A stale copy on one node would train on other data, or build a model of another size, whose collectives never match.
  const std::string difference = difference_between_ranks(world, facts_of(config, data));
  if (!difference.empty()) {
    throw SharedError(ExitCode::data, fmt::format("{}: the token file differs between ranks: {}; give all nodes the same file",
                                                  data.dataset->name(), difference));
  }
  if (!data.tokens) return data;
  if (model_of != nullptr) require_same_tokenizer(data, *model_of);
  fail_together(world, "opening the data", [&] { set_vocabulary(config, data.tokens->vocabulary_size()); });
  check_some_tokens(world, *data.tokens);
  return data;
}

std::shared_ptr<const Tokenizer> tokenizer_of_model(Communicator& world, RunConfig& config, const TrainingState& state,
                                                    bool from_file) {
  if (from_file || state.tokenizer.empty()) {
    fail_together(world, "reading the tokenizer", [&] {
      std::error_code error;
      if (from_file || std::filesystem::exists(config.data.tokens, error)) return;
      fail(ExitCode::io,
           "{}: no such token file, and the checkpoint has no tokenizer (it is older than tokenizers in checkpoints, or was "
           "imported without one): name a token file with the model's tokenizer",
           config.data.tokens);
    });
    const std::shared_ptr<const TokenFile> tokens = open_data(world, config, DataUse::evaluation, &state).tokens;
    return {tokens, &tokens->tokenizer()};
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  fail_together(world, "reading the tokenizer", [&] {
    tokenizer = read_tokenizer(state.tokenizer, "the checkpoint");
    set_vocabulary(config, tokenizer->vocabulary_size());
  });
  return tokenizer;
}

std::string unused_rows_warning(const RunConfig& config, const RunData& data) {
  if (!data.tokens) return "";
  const Count rows = config.model.vocabulary, used = data.tokens->vocabulary_size();
  if (rows <= 2 * used) return "";
  return fmt::format(
      "model.vocabulary = {}, but the tokenizer of {} has {} tokens: the other rows of the embedding match no text. They cost "
      "memory and time, and as their logits all fall together the loss may jump early in training. Set model.vocabulary = 0, "
      "which gives one row per token; if that size is intended, a lower optimizer.learning_rate or model.tied_head = false helps "
      "more than a longer warm-up",
      rows, config.data.tokens, used);
}

}  // namespace cohort
