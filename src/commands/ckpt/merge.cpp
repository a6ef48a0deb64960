// `cohort ckpt merge`: a checkpoint with adapters as one of a model without them. Starts neither MPI nor Kokkos.
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/commands.hpp"
#include "commands/common/step_option.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "interchange/adapters.hpp"
#include "interchange/checkpoint_weights.hpp"
#include "interchange/exchange.hpp"
#include "interchange/hf_config.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

struct CkptMergeOptions {
  std::string checkpoint, run;
  bool overwrite = false;
  std::optional<Count> step;
};

int run_merge(const CkptMergeOptions& options) {
  if (!is_printing_rank()) return 0;
  const CheckpointWeights ours(resolve_checkpoint(options.checkpoint, options.step));
  const std::string where = ours.folder().string();
  RunConfig config = parse_saved_run_file(ours.state().run_file, where + ", its run file");
  config.model = resolved_model(config.model, where);
  if (config.model.lora.rank == 0) fail(ExitCode::usage, "{} has no adapters to merge: it was not trained with [lora]", where);
  const std::unique_ptr<TensorSource> weights = merged(ours, config.model, where);
  if (!options.overwrite) require_empty(options.run);
  remove_checkpoints(options.run);
  config.model.lora = {};
  TrainingState state = ours.state();
  state.model = describe_model(config.model);
  state.run_file = to_toml(config);
  state.history += fmt::format("adapters merged into the weights at step {}\n", state.step);
  const std::filesystem::path checkpoint = write_checkpoint(options.run, *weights, state);
  fmt::print("{}: {}, {}, to {}\n", where, state.model, counted(static_cast<Count>(weights->tensors().size()), "tensor"),
             checkpoint.string());
  return 0;
}

}  // namespace

void add_ckpt_merge(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("merge", "Fold the adapters of a checkpoint into its weights");
  command->footer(
      "The new run has the weights W + alpha / rank B A and no adapters; docs/finetuning.md uses it. Its checkpoint has no "
      "optimizer\n"
      "state: another run starts from it through the key run.initial_checkpoint.");
  const auto options = std::make_shared<CkptMergeOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  add_step_option(*command, options->step);
  command->add_option("--out", options->run, "Run folder to create")->type_name("FOLDER")->required();
  command->add_flag("--overwrite", options->overwrite, "Replace the checkpoints in the run folder");
  command->callback([&action, options] { action = [options] { return run_merge(*options); }; });
}

}  // namespace cohort
