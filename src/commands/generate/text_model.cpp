#include "commands/generate/text_model.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "config/model_rules.hpp"
#include "train/generate.hpp"
#include "train/nonfinite.hpp"

namespace cohort {

RunConfig run_for_text(Runtime& runtime, Communicator& world, const std::string& name, const TrainingState& state,
                       const std::vector<std::string>& overrides, const std::string& layout, const std::string& tokens) {
  RunConfig config =
      run_of_checkpoint(runtime, world, state.run_file, overrides, {.reads_data = false, .layout = layout, .tokens = tokens});
  if (!attention_of(config.model))
    throw SharedError(ExitCode::usage, fmt::format("{} holds an {}, which does not generate text", name, config.model.kind));
  const Count parts = config.parallel.tp * config.parallel.pp;
  if (world.size() != parts) {
    throw SharedError(ExitCode::usage,
                      fmt::format("{} and parallel.tp x parallel.pp = {}: start {}, or divide the model over all with "
                                  "--layout tp=N or pp=N",
                                  counted(world.size(), "rank"), parts, counted(parts, "rank")));
  }
  return config;
}

void with_place_of_not_finite(Communicator& world, const std::function<void()>& work) {
  try {
    work();
  } catch (const LogitsNotFinite& error) {
    if (world.size() == 1) throw;
    const std::string where = first_not_finite_in_words(world, error.unit);
    throw SharedError(error.code(), fmt::format("{}{}{}", error.what_is, where.empty() ? "" : "; ", where));
  }
}

void add_sampling_options(CLI::App& command, Sampling& sampling) {
  command.add_option("--temperature", sampling.temperature, "0 = always the likeliest token")
      ->check(number_from(0.0, 1000.0))
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Choose among the k likeliest tokens; 0 = all")->check(integer_from(0));
  command.add_option("--top-p", sampling.top_p, "Choose among the likeliest tokens of this total probability; 1 = all")
      ->check(number_above(0.0, 1.0));
}

}  // namespace cohort
