// `cohort eval`: how good the models of checkpoints are: the loss on validation data, or multiple-choice questions.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/load/collective.hpp"
#include "checkpoint/store/store.hpp"
#include "comm/consensus.hpp"
#include "commands/commands.hpp"
#include "commands/common/load_run.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/step_option.hpp"
#include "commands/eval/measured.hpp"
#include "config/model_rules.hpp"
#include "models/model.hpp"
#include "ops/gemm.hpp"
#include "runtime/runtime.hpp"
#include "train/choices.hpp"
#include "train/data_setup.hpp"
#include "train/precision.hpp"
#include "train/train_step.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct EvalOptions {
  std::vector<std::string> checkpoints;
  std::optional<Count> step;
  std::string steps;  // "all", or numbers between commas
  std::string tokens, choices, layout;
  Count samples = 0;
  bool json = false;

  bool is_of_several() const { return checkpoints.size() > 1 || !steps.empty(); }
};

struct NamedCheckpoint {
  std::string name, folder;
};

std::vector<NamedCheckpoint> checkpoints_of(const std::string& path, const EvalOptions& options) {
  if (options.steps.empty()) return {{path, resolve_checkpoint(path, options.step).string()}};
  const std::vector<StoredCheckpoint> stored = list_checkpoints(path);
  if (stored.empty()) {
    resolve_checkpoint(path);  // throws if there is nothing of the name
    fail(ExitCode::usage, "--steps: {} is a checkpoint; give the folder of its run", path);
  }
  std::vector<NamedCheckpoint> found;
  if (options.steps == "all") {
    for (const StoredCheckpoint& checkpoint : stored) found.push_back({path, checkpoint.folder.string()});
    return found;
  }
  for (const std::string& step : split(options.steps, ',')) {
    if (step.empty() || step.size() > 18 || !std::ranges::all_of(step, [](char c) { return c >= '0' && c <= '9'; }))
      fail(ExitCode::usage, "--steps {}: must be all, or steps such as 200,400", options.steps);
    found.push_back({path, resolve_checkpoint(path, std::stoll(step)).string()});
  }
  return found;
}

// As rank 0 sees them. Collective over: world
std::vector<NamedCheckpoint> find_checkpoints(Communicator& world, const EvalOptions& options) {
  std::string list;  // names and folders, each ended by a NUL, which no path has
  fail_together(world, "looking for the checkpoints", [&] {
    if (world.rank() != 0) return;
    for (const std::string& path : options.checkpoints) {
      for (const NamedCheckpoint& checkpoint : checkpoints_of(path, options))
        list += checkpoint.name + '\0' + checkpoint.folder + '\0';
    }
  });
  const std::vector<std::string> words = split(broadcast_text(world, list, 0), '\0');
  std::vector<NamedCheckpoint> all;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) all.push_back({words[i], words[i + 1]});
  return all;
}

/// The evaluations of one job.
class EvalJob {
 public:
  explicit EvalJob(const EvalOptions& options) : options_(options), world_(open_world()) {}

  Communicator& world() { return *world_; }

  // Collective over: world
  Measured measure(const NamedCheckpoint& checkpoint) {
    const TrainingState state = read_training_state_collectively(*world_, checkpoint.folder);
    const bool asks = !options_.choices.empty();
    RunConfig config = run_of_checkpoint(runtime_, *world_, state.run_file, {}, {!asks, options_.layout, options_.tokens});
    if (asks && !attention_of(config.model)) {
      throw SharedError(ExitCode::usage,
                        fmt::format("--choices: {} holds an {}, which reads no text", checkpoint.name, config.model.kind));
    }
    Subject subject{.what = fmt::format("{}, step {}", checkpoint.name, state.step)};
    if (asks) {
      const auto tokenizer = tokenizer_of_model(*world_, config, state, !options_.tokens.empty());
      subject.questions = open_choices(*world_, options_.choices, *tokenizer, config.model.context, options_.samples);
    } else {
      subject.data = open_data(*world_, config, DataUse::evaluation, &state);
    }
    if (!std::exchange(is_set_up_, true)) set_up_job(runtime_, *world_, config);
    return {.checkpoint = checkpoint.name,
            .step = state.step,
            .source = asks ? options_.choices : subject.data.dataset->name(),
            .is_text = asks || subject.data.tokens != nullptr,
            .evaluation = options_.layout.empty() ? with_whole_model(config, checkpoint.folder, subject)
                                                  : in_layout(config, checkpoint.folder, subject)};
  }

 private:
  struct Subject {
    std::string what;   // for messages
    RunData data = {};  // with --choices none
    std::vector<ChoiceQuestion> questions = {};
  };

  Evaluation with_whole_model(const RunConfig& config, const fs::path& checkpoint, const Subject& subject) {
    ops::set_gemm_threads(static_cast<int>(config.device.threads));
    const std::unique_ptr<Model> model = declare_model(config.model, storage_of(config));
    model->parameters().allocate_values(config.run.seed, storage_of(config));
    load_checkpoint_collectively(*world_, checkpoint, model->parameters(), describe_model(config.model));
    Arena activations("activations", device_of(config));
    Hooks none;
    return evaluate_subject({.exec = exec_of(config),
                             .hooks = none,
                             .activations = activations,
                             .share = {world_->rank(), world_->size()},
                             .token_bytes = subject.data.token_bytes},
                            *model, subject, *world_, config.train.micro_batch);
  }

  Evaluation in_layout(const RunConfig& config, const fs::path& checkpoint, const Subject& subject) {
    const Mesh mesh(*world_, mesh_shape_of(config.parallel), device_of(config), config.device.share);
    TrainStep step(config, mesh);
    step.load_weights(checkpoint);
    return evaluate_subject(EvaluationContext::of(step, mesh, subject.data.token_bytes), step.predictor(), subject,
                            mesh.host_gradient(), config.train.micro_batch);
  }

  Evaluation evaluate_subject(const EvaluationContext& setup, Predictor& model, const Subject& subject, Communicator& group,
                              Count micro_batch) {
    Evaluation evaluation;
    if (!subject.questions.empty()) {
      evaluation.choices = score_choices(setup, model, subject.questions, options_.choices, group);
      return evaluation;
    }
    const Dataset& dataset = *subject.data.dataset;
    evaluation = evaluate(setup, model, dataset, group, micro_batch, options_.samples);
    require_finite(*world_, subject.what, evaluation, setup, model, dataset, group, micro_batch, options_.samples);
    return evaluation;
  }

  const EvalOptions& options_;
  Runtime runtime_;
  std::unique_ptr<Communicator> world_;
  bool is_set_up_ = false;
};

// Of names that are no UTF-8, as paths may be, the bytes that are none are replaced.
void print_line(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int evaluate_checkpoints(const EvalOptions& options) {
  EvalJob job(options);
  std::vector<Measured> all;
  for (const NamedCheckpoint& checkpoint : find_checkpoints(job.world(), options)) all.push_back(job.measure(checkpoint));
  if (job.world().rank() != 0) return 0;
  if (!options.is_of_several()) {
    options.json ? print_line(as_json(all.front())) : fmt::print("{}", as_text(all.front()));
    return 0;
  }
  if (!options.json) {
    fmt::print("{}", as_text(all));
    return 0;
  }
  auto list = nlohmann::ordered_json::array();
  for (const Measured& measured : all) {
    nlohmann::ordered_json item{{"checkpoint", measured.checkpoint}};
    item.update(as_json(measured));
    list.push_back(std::move(item));
  }
  print_line(list);
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("eval", "Measure the validation loss of checkpoints, or multiple choice");
  command->footer(
      "Loss, perplexity and bits per byte are over all tokens, the same for any number of ranks, layout and micro-batch (within\n"
      "1e-6, the rounding of fp32). A classifier has its accuracy instead of the last two. Each rank holds the whole model, "
      "unless\n"
      "--layout cuts it; that takes the memory of training.\n"
      "--choices scores multiple-choice questions instead, in the manner of HellaSwag: a JSONL file with ctx, endings and "
      "label.\n"
      "The tokenizer is that in the checkpoint; no token file is needed.\n\n"
      "Examples:\n"
      "  cohort eval runs/demo                              the newest checkpoint of a run\n"
      "  cohort eval runs/demo --step 400                   that one\n"
      "  cohort eval runs/demo --steps all                  all of the run, as a table; 200,400 for some\n"
      "  mpirun -np 4 cohort eval runs/demo                 the same number, on four ranks\n"
      "  mpirun -np 2 cohort eval runs/demo --layout tp=2   on the two halves of each matrix\n"
      "  cohort eval runs/demo --samples 64                 on 64 samples only: faster\n"
      "  cohort eval runs/demo --choices inputs/story_choices.jsonl\n"
      "  cohort eval runs/demo/checkpoints/step_00000400 --tokens data/other.h5 --json");
  const auto options = std::make_shared<EvalOptions>();
  command->add_option("checkpoints", options->checkpoints, "Checkpoints or run folders; of several, a table")->required();
  add_step_option(*command, options->step);
  command->add_option("--steps", options->steps, "Steps of the runs, side by side: all, or a list such as 200,400")
      ->type_name("all|STEP,...")
      ->excludes("--step");
  command->add_option("--tokens", options->tokens, "Token file to use instead of the run's, with the same tokenizer")
      ->type_name("FILE");
  command->add_option("--choices", options->choices, "Score the multiple-choice questions of this JSONL file instead")
      ->type_name("FILE");
  command->add_option("--samples", options->samples, "Samples over all ranks, or questions; 0 = all")->check(integer_from(0));
  command->add_option("--layout", options->layout, "Keys of [parallel], such as tp=2,pp=2; default: a whole model on each rank")
      ->type_name("KEYS");
  command->add_flag("--json", options->json, "Print JSON: an object, or a list of them for several checkpoints");
  command->callback([&action, options] { action = [options] { return evaluate_checkpoints(*options); }; });
}

}  // namespace cohort
