// `cohort generate`: text from a checkpoint.
#include <cstdio>
#include <memory>
#include <utility>

#include "base/console.hpp"
#include "base/error.hpp"
#include "checkpoint/load/collective.hpp"
#include "commands/commands.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/step_option.hpp"
#include "config/model_rules.hpp"
#include "models/model.hpp"
#include "ops/gemm.hpp"
#include "runtime/runtime.hpp"
#include "train/data_setup.hpp"
#include "train/generate.hpp"
#include "train/precision.hpp"
#include "train/resume.hpp"

namespace cohort {
namespace {

struct GenerateCommandOptions {
  std::string checkpoint;
  std::optional<Count> step;
  std::string prompt;
  std::string tokens_file;
  Count tokens = 200;
  double temperature = 0.8;
  Count top_k = 0;
  std::uint64_t seed = 1;
};

int generate_text(const GenerateCommandOptions& options) {
  Runtime runtime;
  if (runtime.size() > 1) throw SharedError(ExitCode::usage, "cohort generate runs on one rank: start it without mpirun");
  const std::unique_ptr<Communicator> world = open_world();
  const std::filesystem::path checkpoint = resolve_checkpoint_collectively(*world, options.checkpoint, options.step);
  const TrainingState state = read_training_state_collectively(*world, checkpoint);
  std::vector<std::string> overrides;
  if (!options.tokens_file.empty()) overrides.push_back("data.tokens=" + options.tokens_file);
  RunConfig config = run_of_checkpoint(runtime, *world, state.run_file, overrides, {.reads_data = false});
  if (!attention_of(config.model)) {
    fail(ExitCode::usage, "{} holds an {}, which does not generate text", options.checkpoint, config.model.kind);
  }
  const std::shared_ptr<const Tokenizer> of_model =
      tokenizer_of_model(*world, config, state, /*from_file=*/!options.tokens_file.empty());
  const Tokenizer& tokenizer = *of_model;
  set_up_job(runtime, *world, config);
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  const std::unique_ptr<Model> model = make_model(config.model, config.run.seed, storage_of(config));
  load_checkpoint_collectively(*world, checkpoint, model->parameters(), describe_model(config.model));
  const std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt, "--prompt");
  if (prompt.empty()) fail(ExitCode::usage, "--prompt is empty: give at least one character to continue");
  Hooks none;
  bool begun = false;  // the prompt comes with the first token: of a model that gives none nothing is printed
  generate(*model, prompt,
           {.vocabulary = tokenizer.vocabulary_size(),
            .tokens = options.tokens,
            .temperature = options.temperature,
            .top_k = options.top_k,
            .seed = options.seed,
            .context = config.model.context,
            .kernels = exec_of(config).kernels},
           none, [&](std::int32_t token) {
             fmt::print("{}{}", std::exchange(begun, true) ? "" : options.prompt, tokenizer.text_of(token));
             flush_console();
           });
  fmt::print("\n");
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("generate", "Continue a text with a trained model");
  command->footer("Example:\n  cohort generate runs/demo --prompt \"Once upon a time\" --tokens 300 --temperature 0.7");
  const auto options = std::make_shared<GenerateCommandOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint or a run folder")->required();
  add_step_option(*command, options->step);
  command->add_option("--prompt", options->prompt, "The text to continue")->required();
  command->add_option("--tokens", options->tokens, "Tokens to generate")->check(integer_from(1, 1'000'000));
  command->add_option("--temperature", options->temperature, "0 = always the likeliest token")->check(number_from(0.0, 1000.0));
  command->add_option("--top-k", options->top_k, "Choose among the k likeliest tokens; 0 = all")->check(integer_from(0));
  command->add_option("--seed", options->seed, "The same seed gives the same text");
  command->add_option("--tokens-file", options->tokens_file, "Use the tokenizer of this token file, for checkpoints without one")
      ->type_name("FILE");
  command->callback([&action, options] { action = [options] { return generate_text(*options); }; });
}

}  // namespace cohort
