// `cohort ckpt import`: weights from a folder of Hugging Face's, or of plain safetensors, as the first checkpoint of a run.
// Starts neither MPI nor Kokkos.
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/commands.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/version.hpp"
#include "config/describe.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "config/schema.hpp"
#include "interchange/adapters.hpp"
#include "interchange/checkpoint_weights.hpp"
#include "interchange/exchange.hpp"
#include "interchange/hf_config.hpp"
#include "runtime/failure_exit.hpp"
#include "train/resume.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct CkptImportOptions {
  std::string folder, run, run_file, tokens, base;
  bool overwrite = false;
};

// A run's name may have letters, digits, '.', '_' and '-'.
std::string name_after(const fs::path& folder) {
  std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') c = '_';
  }
  return name + "_tuned";
}

// A run that trains the imported weights further, in a folder of its own.
RunConfig tuning_run(const ImportFolder& imported, const CkptImportOptions& options) {
  RunConfig config;
  config.model = imported.model();
  config.data = imported.config().data;
  if (!options.tokens.empty()) {
    config.data.tokens = options.tokens;
    config.data.sources.clear();
    config.data.stages.clear();
  }
  config.run.name = name_after(options.run);
  config.run.initial_checkpoint = options.run;
  return config;
}

// The keys that follow from what was imported; all others are the user's to set, and at their defaults until then.
std::string run_file_of(const RunConfig& config) {
  std::string text = "# Trains imported weights further. `cohort train --help-keys` explains every key that can be added.\n";
  for (const std::string_view section : {"run", "model", "lora", "data"}) {
    if (section == "lora" && config.model.lora.rank == 0) continue;
    text += fmt::format("\n[{}]\n", section);
    for (const KeySpec& key : all_keys()) {
      if (key.section != section || !is_used(key, config)) continue;
      text += fmt::format("{:<34}  # {}\n", fmt::format("{} = {}", key.name, value_as_toml(key, config)), key.help);
    }
  }
  return text;
}

void say_what_next(const CkptImportOptions& options, const RunConfig& config) {
  const bool has_data = config.data.kind != "tokens" || !config.data.token_files().front().empty();
  const std::string tokens = has_data ? "" : " --tokens TOKENS.h5";
  const std::string run_file = options.run_file.empty() ? "tune.toml" : options.run_file;
  fmt::print("What next:\n  cohort eval {}{}\n", options.run, tokens);
  if (options.run_file.empty()) fmt::print("  cohort ckpt show {} --run-file > {}\n", options.run, run_file);
  fmt::print("  cohort train {}{}   starts from these weights, in the folder runs/{}\n", run_file,
             has_data ? "" : " --set data.tokens=TOKENS.h5", config.run.name);
  if (!has_data) {
    fmt::print("The token file must use the model's own token ids, below {}: give `cohort data prepare` the model's tokenizer.\n",
               config.model.vocabulary);
  }
}

// Adapters of PEFT beside the weights of a run.
int import_adapters(const CkptImportOptions& options) {
  if (!options.run_file.empty() || !options.tokens.empty())
    fail(ExitCode::usage, "--run-file and --tokens: with --base the run file is that of the base");
  const CheckpointWeights base(options.base);
  const std::string where = base.folder().string();
  RunConfig config = parse_saved_run_file(base.state().run_file, where + ", its run file");
  config.model = resolved_model(config.model, where);
  if (config.model.lora.rank > 0)
    fail(ExitCode::usage, "{} has adapters already: fold them into its weights with `cohort ckpt merge`", where);
  const PeftFolder adapters(options.folder, config.model);
  config.model = adapters.model();
  const std::unique_ptr<TensorSource> weights = adapters.joined(base, where);
  if (!options.overwrite) require_empty(options.run);
  remove_checkpoints(options.run);
  TrainingState state = base.state();
  state.model = describe_model(config.model);
  state.run_file = to_toml(config);
  state.history += fmt::format("adapters of {} joined at step {}\n", options.folder, state.step);
  const fs::path checkpoint = write_checkpoint(options.run, *weights, state);
  fmt::print("{}: adapters of rank {} for {} of {}, to {}\n", options.folder, config.model.lora.rank, config.model.lora.targets,
             where, checkpoint.string());
  return 0;
}

int run_import(const CkptImportOptions& options) {
  if (!is_printing_rank()) return 0;
  const bool peft = fs::exists(fs::path(options.folder) / kPeftConfigFile);
  if (peft != !options.base.empty()) {
    fail(ExitCode::usage, "{} {}: {}", options.folder, peft ? "holds adapters of PEFT" : "holds no adapters of PEFT",
         peft ? "name the run or checkpoint whose weights they join with --base" : "leave --base out");
  }
  if (peft) return import_adapters(options);
  const ImportFolder imported(options.folder);
  const RunConfig config = tuning_run(imported, options);
  if (!options.overwrite) require_empty(options.run);
  const fs::path run_file =
      options.run_file.empty() ? fs::path() : output_file("--run-file", options.run_file, options.overwrite);
  if (const fs::path parent = fs::path(options.run_file).parent_path(); !parent.empty()) make_folders(parent);
  remove_checkpoints(options.run);

  TrainingState state;
  state.seed = config.run.seed;
  state.model = describe_model(config.model);
  state.run_file = run_file_of(config);
  state.tokenizer = imported.tokenizer();
  state.cohort_version = cohort_version();
  state.git_revision = git_revision();
  const fs::path checkpoint = write_checkpoint(options.run, imported.weights(), state);
  if (!options.run_file.empty()) write_file_atomically(run_file, state.run_file);
  fmt::print("{}: {}, {}, to {}\n", options.folder, state.model,
             counted(static_cast<Count>(imported.weights().tensors().size()), "tensor"), checkpoint.string());
  for (const std::string& note : imported.notes()) fmt::print("note: {}\n", note);
  say_what_next(options, config);
  return 0;
}

}  // namespace

void add_ckpt_import(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("import", "Make a run from weights of Hugging Face's transformers, or plain safetensors");
  command->footer(
      "Examples:\n"
      "  cohort ckpt import hf/demo --out runs/demo-hf                       config.json and safetensors, one file or several\n"
      "  cohort ckpt import hf/demo --out runs/tune --run-file tune.toml     with a run file that trains these weights further\n"
      "  cohort ckpt import plain --out runs/again                           what `cohort ckpt export --format safetensors` "
      "wrote\n"
      "\n"
      "Only weights are imported: the run has no optimizer state, so --resume cannot continue it; another run starts from it\n"
      "through the key run.initial_checkpoint. A model that gpt2, llama or qwen3 here would not compute exactly is refused.");
  const auto options = std::make_shared<CkptImportOptions>();
  command
      ->add_option("folder", options->folder,
                   "Folder with config.json (or run.toml) and model.safetensors; or with adapters of PEFT")
      ->required();
  command->add_option("--out", options->run, "Run folder to create, with checkpoints/step_00000000")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--run-file", options->run_file, "Also write a run file that starts from these weights")->type_name("FILE");
  command->add_option("--base", options->base, "For adapters of PEFT: the run or checkpoint whose weights they join")
      ->type_name("RUN");
  command->add_option("--tokens", options->tokens, "Token file to name in the run file")->type_name("FILE");
  command->add_flag("--overwrite", options->overwrite, "Replace the checkpoints in the run folder, and the run file");
  command->callback([&action, options] { action = [options] { return run_import(*options); }; });
}

}  // namespace cohort
