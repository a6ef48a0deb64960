#include "train/data_setup.hpp"

#include <algorithm>
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

void require_one_tokenizer(const std::vector<TokenSourceFile>& sources) {
  const TokenFile& first = *sources.front().file;
  for (const TokenSourceFile& source : sources) {
    const std::string expected = in_words(first.tokenizer()), found = in_words(source.file->tokenizer());
    if (found == expected) continue;
    fail(
        ExitCode::data,
        "{}: its tokenizer ({}) is not that of {} ({}); all data.sources need the same: prepare this text again with --tokenizer "
        "{}",
        source.file->path(), found, first.path(), expected, first.path());
  }
}

// Of those that are conversations: one model can be talked to by one template only.
void require_one_chat_template(const std::vector<TokenSourceFile>& sources) {
  const TokenFile* first = nullptr;
  for (const TokenSourceFile& source : sources) {
    const TokenFile& file = *source.file;
    if (file.chat_template().empty()) continue;
    if (first == nullptr) first = &file;
    if (file.chat_template() != first->chat_template()) {
      fail(ExitCode::data,
           "{}: its conversations have the template {}, those of {} the template {}; prepare them again with one of them",
           file.path(), file.chat_template(), first->path(), first->chat_template());
    }
  }
}

std::vector<MixtureStage> stages_of(const DataSection& section) {
  std::vector<MixtureStage> stages;
  for (const DataStage& stage : section.stages) {
    MixtureStage& last = stages.emplace_back(MixtureStage{.first_step = stage.from_step - 1, .weights = {}});
    for (const DataSource& source : section.sources) {
      const auto weight = stage.weights.find(source.name);
      last.weights.push_back(weight == stage.weights.end() ? 0.0 : weight->second);
    }
  }
  return stages;
}

}  // namespace

RunData open_data_here(const RunConfig& config) {
  RunData data;
  if (config.data.kind == "two_moons") {
    data.dataset = std::make_unique<TwoMoonsDataset>(config.run.seed, config.model.inputs, config.data.samples);
    data.description =
        fmt::format("two_moons samples={} inputs={} seed={}", config.data.samples, config.model.inputs, config.run.seed);
    return data;
  }
  std::unique_ptr<TokenDataset> dataset;
  for (const DataSource& source : config.data.sources)
    data.sources.push_back({source.name, std::make_shared<const TokenFile>(source.tokens)});
  if (data.sources.empty()) {
    data.tokens = std::make_shared<const TokenFile>(config.data.tokens);
    dataset = std::make_unique<TokenDataset>(data.tokens, config.model.context);
    data.description = record_of(*data.tokens);
  } else {
    require_one_tokenizer(data.sources);
    require_one_chat_template(data.sources);
    data.tokens = data.sources.front().file;
    dataset = std::make_unique<TokenDataset>(data.sources, config.model.context);
    data.description = record_of(data.sources);
  }
  if (config.data.documents == "separate") dataset->separate_documents();
  data.dataset = std::move(dataset);
  data.tokenizer = data.tokens->tokenizer().serialise();
  data.token_bytes = bytes_of_tokens(data.tokens->tokenizer());
  return data;
}

Sampler sampler_of(const RunConfig& config, const Dataset& dataset) {
  if (!config.data.sources.empty())
    return {dataset.parts(Split::train), stages_of(config.data), config.run.seed, config.train.global_batch};
  return {dataset.samples(Split::train), config.run.seed, config.train.global_batch, dataset.name()};
}

namespace {

// Of conversations a few short answers may count, and a validation of few samples may meet none: better now than after hours.
void require_validation_targets(const RunConfig& config, const Dataset& dataset) {
  const Count limit = config.train.validation_samples;
  Batch batch;
  for (const DatasetPart& part : dataset.parts(Split::validation)) {
    const Count samples = limit > 0 ? std::min(limit, part.samples) : part.samples;
    for (Count i = 0; i < samples; ++i) {
      const Count id = part.first + i;
      dataset.fill(Split::validation, {&id, 1}, batch);
      if (batch.valid_targets() > 0) return;
    }
  }
  fail(ExitCode::data,
       "{}: no target of its /validation counts{}; raise train.validation_samples, or prepare the conversations with a larger "
       "--validation",
       dataset.name(), limit > 0 ? fmt::format(" in the first {}", counted(limit, "sample")) : "");
}

void check_for_training(const RunConfig& config, const RunData& data) {
  sampler_of(config, *data.dataset);
  if (data.tokens) require_validation_targets(config, *data.dataset);
  if (data.tokens && !config.sample.prompt.empty()) data.tokens->tokenizer().encode(config.sample.prompt, "sample.prompt");
}

std::vector<TokenSourceFile> files_of(const RunData& data) {
  return data.sources.empty() ? std::vector<TokenSourceFile>{{"", data.tokens}} : data.sources;
}

// What must be the same on all ranks, a fact a line.
std::string facts_of(const RunConfig& config, const RunData& data) {
  if (!data.tokens) return fmt::format("{}, model.vocabulary = {}", data.description, config.model.vocabulary);
  std::string facts = fmt::format("a tokenizer of {}\n", tokenizer_of_record(data.description));
  for (const auto& [name, file] : files_of(data)) {
    for (const Split split : {Split::train, Split::validation})
      facts += fmt::format("{}/{} of {} tokens, crc32={:08x}\n", name, name_of(split), file->tokens(split), file->crc32(split));
    if (file->chat_template().empty()) continue;
    facts += fmt::format("{} of conversations by {}, counted={:08x},{:08x}\n", name, file->chat_template(),
                         file->counted_crc32(Split::train), file->counted_crc32(Split::validation));
  }
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
    data = open_data_here(config);
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
  for (const TokenSourceFile& source : files_of(data)) check_some_tokens(world, *source.file);
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

std::string describe_mixture(const RunConfig& config, const RunData& data) {
  if (data.sources.empty()) return "";
  const Sampler sampler = sampler_of(config, *data.dataset);
  const std::vector<DatasetPart> parts = data.dataset->parts(Split::train);
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("source      {}: {}, {}, {:.2f} epochs\n", parts[i].name, data.sources[i].file->path(),
                        counted(parts[i].samples, "sample"), sampler.epochs(i, config.train.steps));
  }
  return text + describe_stages(config);
}

std::string describe_stages(const RunConfig& config) {
  std::string text;
  for (const DataStage& stage : config.data.stages) {
    double sum = 0.0;
    for (const auto& [name, weight] : stage.weights) sum += weight;
    std::vector<std::string> shares;
    for (const auto& [name, weight] : stage.weights) shares.push_back(fmt::format("{:.4g} % {}", 100.0 * weight / sum, name));
    const char* never = stage.from_step > config.train.steps ? " (never: the run ends before)" : "";
    text += fmt::format("stage       from step {}{}: {}\n", stage.from_step, never, join(shares));
  }
  return text;
}

namespace {

std::string repetition_warning(const RunConfig& config, const RunData& data) {
  constexpr double kMostEpochs = 4.0;
  if (data.sources.empty()) return "";
  const Sampler sampler = sampler_of(config, *data.dataset);
  std::vector<std::string> repeated;
  for (std::size_t source = 0; source < data.sources.size(); ++source) {
    const double epochs = sampler.epochs(source, config.train.steps);
    if (epochs > kMostEpochs) repeated.push_back(fmt::format("'{}' {:.1f} times", data.sources[source].name, epochs));
  }
  if (repeated.empty()) return "";
  return fmt::format(
      "the run goes through {}: beyond about {:g} epochs, repeated text helps less and less (Muennighoff et al. 2023, Scaling "
      "Data-Constrained Language Models); lower its weight, or add text",
      join(repeated), kMostEpochs);
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
      rows, data.tokens->path(), used);
}

}  // namespace

std::vector<std::string> data_warnings(const RunConfig& config, const RunData& data) {
  std::vector<std::string> warnings{unused_rows_warning(config, data), repetition_warning(config, data)};
  std::erase(warnings, "");
  return warnings;
}

}  // namespace cohort
