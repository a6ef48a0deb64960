#include "config/lora_keys.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/key_ranges.hpp"
#include "config/model_rules.hpp"
#include "config/where_set.hpp"

namespace cohort {

std::vector<KeySpec> lora_keys() {
  const KeySpec::OnlyWith with_rank{"lora.rank", {"1 or more"}};  // as is_used() knows
  return {
      {"lora",
       "rank",
       [](RunConfig& config) -> Field { return &config.model.lora.rank; },
       IntegerRange{0, kMaxSize},
       "rank of the adapters that are trained in the place of the weights, which stay as they are; 0 = none",
       {}},
      {"lora", "alpha", [](RunConfig& config) -> Field { return &config.model.lora.alpha; }, kPositive,
       "the adapters' product is multiplied by alpha / rank", with_rank},
      {"lora", "targets", [](RunConfig& config) -> Field { return &config.model.lora.targets; }, kAny,
       "patterns of names of the weights of linear layers that have adapters, separated by commas: * any characters, ? one",
       with_rank},
  };
}

std::vector<std::string> lora_targets(const LoraSection& lora) {
  std::vector<std::string> patterns;
  for (std::string pattern : split(lora.targets, ',')) {
    pattern.erase(0, pattern.find_first_not_of(' '));
    pattern.erase(pattern.find_last_not_of(' ') + 1);
    if (!pattern.empty()) patterns.push_back(std::move(pattern));
  }
  return patterns;
}

void check_lora(const RunConfig& config) {
  const LoraSection& lora = config.model.lora;
  if (lora.rank == 0) return;
  const std::string where = where_set(config, {"lora.rank"});
  if (!attention_of(config.model))
    fail(ExitCode::config, "{}lora.rank = {}: an {} has no transformer blocks whose layers adapters could join", where, lora.rank,
         config.model.kind);
  if (lora_targets(lora).empty())
    fail(ExitCode::config, "{}lora.targets names no weights; for example \"*.query.weight,*.value.weight\"",
         where_set(config, {"lora.targets", "lora.rank"}));
  if (config.parallel.data == "zero3") {
    fail(ExitCode::config,
         "{}parallel.data = \"zero3\" does not divide the weights beside adapters (lora.rank = {}), which every rank has whole; "
         "choose zero2, which divides all that the adapters have",
         where_set(config, {"parallel.data", "lora.rank"}), lora.rank);
  }
}

std::string describe_lora(const LoraSection& lora) {
  if (lora.rank == 0) return "";
  return fmt::format(" lora_rank={} lora_alpha={} lora_targets={}", lora.rank, lora.alpha, join(lora_targets(lora), ","));
}

}  // namespace cohort
