#include "train/data_setup.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "comm/agreement.hpp"
#include "config/validate.hpp"
#include "data/sampler.hpp"

namespace cohort {
namespace {

RunData open_on_this_rank(RunConfig& config, bool check_all_tokens) {
  RunData data;
  if (config.data.kind == "two_moons") {
    data.dataset = std::make_unique<TwoMoonsDataset>(config.run.seed, config.model.inputs, config.data.samples);
    data.description =
        fmt::format("two_moons samples={} inputs={} seed={}", config.data.samples, config.model.inputs, config.run.seed);
    return data;
  }
  data.tokens = std::make_shared<const TokenFile>(config.data.tokens);
  if (check_all_tokens) data.tokens->verify();
  set_vocabulary(config, data.tokens->vocabulary_size());
  data.dataset = std::make_unique<TokenDataset>(data.tokens, config.model.context);
  data.description = fmt::format("{} train={} crc32={:08x} validation={} crc32={:08x}",
                                 std::filesystem::path(config.data.tokens).filename().string(), data.tokens->tokens(Split::train),
                                 data.tokens->crc32(Split::train), data.tokens->tokens(Split::validation),
                                 data.tokens->crc32(Split::validation));
  return data;
}

void check_for_training(const RunConfig& config, const RunData& data) {
  Sampler(data.dataset->samples(Split::train), config.run.seed, config.train.global_batch, data.dataset->name());
  if (data.tokens && !config.sample.prompt.empty()) data.tokens->tokenizer().encode(config.sample.prompt, "sample.prompt");
}

}  // namespace

RunData open_data(Communicator& world, RunConfig& config, DataUse use) {
  RunData data;
  agree(world, "opening the data", [&] {
    data = open_on_this_rank(config, world.rank() == 0);
    if (use == DataUse::training) check_for_training(config, data);
  });
  // A stale copy on one node would train on other data, or build a model of another size, whose collectives never match.
  if (!same_on_all_ranks(world, fmt::format("{} {}", data.description, config.model.vocabulary))) {
    throw SharedError(ExitCode::data, fmt::format("{}: the token file differs between ranks; give all nodes the same file",
                                                  data.dataset->name()));
  }
  return data;
}

std::string unused_rows_warning(const RunConfig& config, const RunData& data) {
  if (!data.tokens) return "";
  const Count rows = config.model.vocabulary, used = data.tokens->vocabulary_size();
  if (rows <= 2 * used) return "";
  return fmt::format(
      "model.vocabulary = {}, but the tokenizer of {} has {} tokens: the other rows of the embedding stand for no text. They "
      "cost memory and time, and as their logits all fall together the loss may jump early in training. Set model.vocabulary = 0, "
      "which is as many rows as tokens; if the size itself is wanted, a lower optimizer.learning_rate or model.tied_head = false "
      "helps more than a longer warm-up",
      rows, config.data.tokens, used);
}

}  // namespace cohort
