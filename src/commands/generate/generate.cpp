// `cohort generate`: texts from a checkpoint.
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/load/collective.hpp"
#include "comm/consensus.hpp"
#include "commands/commands.hpp"
#include "commands/common/learners_code.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/override_options.hpp"
#include "commands/common/step_option.hpp"
#include "commands/generate/prompts.hpp"
#include "commands/generate/results.hpp"
#include "commands/generate/text_model.hpp"
#include "ops/gemm.hpp"
#include "runtime/runtime.hpp"
#include "train/data_setup.hpp"
#include "train/generate.hpp"
#include "train/model_on_mesh.hpp"
#include "train/precision.hpp"

namespace cohort {
namespace {

struct GenerateCommandOptions {
  std::string checkpoint;
  std::optional<Count> step;
  std::string prompt;
  std::string prompts_file;
  std::string prompt_field = "prompt";
  std::string tokens_file;
  Count tokens = 200;
  Sampling sampling;
  std::uint64_t seed = 1;
  Count samples = 1;
  Count batch = 16;
  std::vector<std::string> stops;
  std::vector<std::string> overrides;
  std::string layout;
  bool no_prompt = false;
  bool json = false;
  std::string with;
};

// Rank 0 alone reads the file. Collective over: world
std::vector<std::string> prompts_of(Communicator& world, const GenerateCommandOptions& options) {
  if (options.prompts_file.empty()) {
    if (options.prompt.empty()) throw SharedError(ExitCode::usage, "--prompt is empty: give at least one character to continue");
    return {options.prompt};
  }
  const std::string content =
      made_by_rank_0(world, "reading the prompts", [&] { return read_file(options.prompts_file, "file of prompts"); });
  std::vector<std::string> prompts;
  fail_together(world, "reading the prompts",
                [&] { prompts = parse_prompts(content, options.prompts_file, options.prompt_field); });
  return prompts;
}

// The ids of each. Collective over: world
std::vector<std::vector<std::int32_t>> encoded(Communicator& world, const Tokenizer& tokenizer,
                                               const std::vector<std::string>& prompts, const GenerateCommandOptions& options) {
  std::vector<std::vector<std::int32_t>> ids;
  fail_together(world, "encoding the prompts", [&] {
    for (std::size_t i = 0; i < prompts.size(); ++i)
      ids.push_back(tokenizer.encode(
          prompts[i], options.prompts_file.empty() ? "--prompt" : fmt::format("{}, prompt {}", options.prompts_file, i + 1)));
  });
  return ids;
}

int generate_text(const GenerateCommandOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const std::filesystem::path checkpoint = resolve_checkpoint_collectively(*world, options.checkpoint, options.step);
  const TrainingState state = read_training_state_collectively(*world, checkpoint);
  RunConfig config =
      run_for_text(runtime, *world, options.checkpoint, state, options.overrides, options.layout, options.tokens_file);
  const std::vector<std::string> prompts = prompts_of(*world, options);
  const std::shared_ptr<const Tokenizer> of_model =
      tokenizer_of_model(*world, config, state, /*from_file=*/!options.tokens_file.empty());
  const Tokenizer& tokenizer = *of_model;
  const std::vector<std::vector<std::int32_t>> ids = encoded(*world, tokenizer, prompts, options);
  use_learners_code(*world, options.with);
  set_up_job(runtime, *world, config);
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  ModelOnMesh model(config, *world);
  model.load(checkpoint);

  const bool one = prompts.size() == 1 && options.samples == 1;
  Results results(tokenizer, prompts,
                  {.form = options.json ? ResultForm::json
                           : one        ? ResultForm::stream
                                        : ResultForm::sections,
                   .prints = world->rank() == 0,
                   .with_prompt = !options.no_prompt,
                   .texts = static_cast<std::size_t>(options.samples),
                   .tokens = static_cast<std::size_t>(options.tokens),
                   .stops = options.stops});
  const GenerateOptions how{.vocabulary = tokenizer.vocabulary_size(),
                            .tokens = options.tokens,
                            .sampling = options.sampling,
                            .seed = options.seed,
                            .texts = options.samples,
                            .at_once = options.batch,
                            .context = config.model.context,
                            .kernels = exec_of(config).kernels};
  Hooks none;
  with_place_of_not_finite(*world, [&] {
    generate(model.predictor(), ids, how, none,
             [&](std::size_t number, std::int32_t token) { return results.put(number, token); });
  });
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("generate", "Continue texts with a trained model");
  command->footer(
      "Examples:\n"
      "  cohort generate runs/demo --prompt \"Once upon a time\" --tokens 300 --temperature 0.7\n"
      "  cohort generate runs/demo --prompt \"One day\" --top-p 0.9 --samples 3 --stop \". \"\n"
      "  cohort generate runs/demo --prompts prompts.txt --json > texts.jsonl        a line of the file is a prompt\n"
      "  mpirun -np 2 cohort generate runs/demo --prompt \"One day\" --layout tp=2\n"
      "docs/generating.md explains the options.");
  const auto options = std::make_shared<GenerateCommandOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint or a run folder")->required();
  add_step_option(*command, options->step);
  auto* prompt = command->add_option("--prompt", options->prompt, "The text to continue");
  auto* file =
      command->add_option("--prompts", options->prompts_file, "A file with a prompt a line, or .jsonl with a field of each line")
          ->type_name("FILE")
          ->excludes(prompt);
  command->add_option("--prompt-field", options->prompt_field, "The field of a .jsonl file")->needs(file)->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens to generate for each text, at most")
      ->check(integer_from(1, 1'000'000))
      ->capture_default_str();
  add_sampling_options(*command, options->sampling);
  command->add_option("--stop", options->stops, "End a text before this string (may be repeated)")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->check(CLI::Validator([](std::string& stop) { return stop.empty() ? "an empty string is in every text" : ""; }, ""));
  command->add_option("--seed", options->seed, "The same seed gives the same texts")->capture_default_str();
  command->add_option("--samples", options->samples, "Texts for each prompt")
      ->check(integer_from(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--batch", options->batch, "Texts to generate side by side, at most")
      ->check(integer_from(1, 65'536))
      ->capture_default_str();
  command->add_flag("--no-prompt", options->no_prompt, "Leave the prompt out");
  command->add_flag("--json", options->json, "Print a JSON object a line for each text");
  command->add_option("--tokens-file", options->tokens_file, "Use the tokenizer of this token file, for checkpoints without one")
      ->type_name("FILE");
  add_override_options(*command, options->overrides);
  command->add_option("--layout", options->layout, "Divide the model over the ranks: tp=N, pp=N or both, as tp=2,pp=2");
  add_with_option(*command, options->with);
  command->callback([&action, options, prompt, file] {
    if (prompt->count() + file->count() == 0) throw CLI::RequiredError("--prompt or --prompts");
    action = [options] { return generate_text(*options); };
  });
}

}  // namespace cohort
