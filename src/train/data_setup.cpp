#include "train/data_setup.hpp"

#include <filesystem>

#include "config/validate.hpp"

namespace cohort {

RunData open_data(RunConfig& config, bool check_all_tokens) {
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
  data.description = fmt::format("{} train={} crc32={:08x}", std::filesystem::path(config.data.tokens).filename().string(),
                                 data.tokens->tokens(Split::train), data.tokens->crc32(Split::train));
  return data;
}

}  // namespace cohort
