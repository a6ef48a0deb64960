// `cohort eval`: the validation loss of a checkpoint.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
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
#include "train/evaluate.hpp"
#include "train/precision.hpp"
#include "train/resume.hpp"

namespace cohort {
namespace {

struct EvalOptions {
  std::string checkpoint;
  std::optional<Count> step;
  std::string tokens;
  Count samples = 0;
  bool json = false;
};

int evaluate_checkpoint(const EvalOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const std::filesystem::path checkpoint = resolve_checkpoint_collectively(*world, options.checkpoint, options.step);
  const TrainingState state = read_training_state_collectively(*world, checkpoint);
  std::vector<std::string> overrides;
  if (!options.tokens.empty()) overrides.push_back("data.tokens=" + options.tokens);
  RunConfig config = run_of_checkpoint(runtime, *world, state.run_file, overrides);
  const RunData data = open_data(*world, config, DataUse::evaluation, state.data);
  set_up_job(runtime, *world, config);
  ops::set_gemm_threads(static_cast<int>(config.device.threads));
  const std::unique_ptr<Model> model = make_model(config.model, config.run.seed, storage_of(config));
  load_checkpoint_collectively(*world, checkpoint, model->parameters(), describe_model(config.model));
  Arena activations("activations", device_of(config));
  Hooks none;
  const EvaluationContext setup{exec_of(config), none, activations, {world->rank(), world->size()}};
  const Evaluation evaluation = evaluate(setup, *model, *data.dataset, *world, config.train.micro_batch, options.samples);
  require_finite(*world, fmt::format("{}, step {}", options.checkpoint, state.step), evaluation, setup, *model, *data.dataset,
                 *world, config.train.micro_batch, options.samples);
  if (world->rank() != 0) return 0;
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"step", state.step},
                                              {"validation_loss", evaluation.loss},
                                              {"targets", evaluation.targets},
                                              {"samples", evaluation.samples}}
                           .dump());
  } else {
    // Of text: how many tokens a guess is among, on average. A classifier has no such thing.
    const std::string perplexity = data.tokens ? fmt::format(" (perplexity {:.3f})", std::exp(evaluation.loss)) : "";
    fmt::print("step {}: validation loss {:.6f} nats{} over {} of {} of {}\n", state.step, evaluation.loss, perplexity,
               counted(evaluation.targets, "target"), counted(evaluation.samples, "sample"), data.dataset->name());
  }
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("eval", "Measure the validation loss of a checkpoint");
  command->footer(
      "Examples:\n"
      "  cohort eval runs/demo                              the newest checkpoint of a run\n"
      "  cohort eval runs/demo --step 400                   that one\n"
      "  mpirun -np 4 cohort eval runs/demo                 the same number, on four ranks\n"
      "  cohort eval runs/demo --samples 64                 on 64 samples only: faster\n"
      "  cohort eval runs/demo/checkpoints/step_00000400 --tokens data/other.h5");
  const auto options = std::make_shared<EvalOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint or a run folder")->required();
  add_step_option(*command, options->step);
  command->add_option("--tokens", options->tokens, "Token file to use instead of the run's, with the same tokenizer")
      ->type_name("FILE");
  command->add_option("--samples", options->samples, "Samples over all ranks; 0 = the whole validation split")
      ->check(integer_from(0));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([&action, options] { action = [options] { return evaluate_checkpoint(*options); }; });
}

}  // namespace cohort
