// `cohort ckpt consolidate` and `cohort ckpt reshard`: a checkpoint written again in the other form, or in the files of another
// layout. One process, without MPI, Kokkos or a GPU; memory does not grow with the checkpoint.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/format/format.hpp"
#include "checkpoint/write/rewrite.hpp"
#include "commands/commands.hpp"
#include "commands/common/step_option.hpp"
#include "commands/common/work_progress.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "runtime/failure_exit.hpp"
#include "train/proof.hpp"
#include "train/resume.hpp"
#include "train/save_options_of.hpp"
#include "train/shards_of_rank.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRanks = 1 << 20;  // of a layout; there is no job that says how many

struct CkptReshardOptions {
  std::string path;
  std::string out;
  std::optional<Count> step;
  bool in_place = false;
  bool overwrite = false;
  bool weights_only = false;  // consolidate
  std::string dtype;          // consolidate
  std::string layout;         // reshard
};

/// RUN of RUN/checkpoints/step_N, where the new checkpoint takes the place of the old one.
fs::path run_of(const CheckpointReader& source) {
  const fs::path folder = fs::canonical(source.folder());
  const fs::path checkpoints = folder.parent_path();
  if (folder.filename() != step_name(source.state().step) || checkpoints != checkpoints_folder(checkpoints.parent_path())) {
    fail(ExitCode::usage, "{}: not in a run (RUN/checkpoints/{}), so it cannot be replaced; give --out", folder.string(),
         step_name(source.state().step));
  }
  return checkpoints.parent_path();
}

/// Nothing is there but for what a failed attempt leaves behind.
bool is_free(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return true;
  if (!fs::is_directory(folder, error) || !list_checkpoints(folder).empty()) return false;
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [&](const fs::directory_entry& entry) { return entry.path() == checkpoints_folder(folder); });
}

fs::path target_of(const CkptReshardOptions& options, const CheckpointReader& source) {
  if (options.out.empty()) return run_of(source);
  if (!options.overwrite && !is_free(options.out)) {
    fail(ExitCode::usage, "--out {}: already exists; choose a new folder, or replace its {} with --overwrite", options.out,
         step_name(source.state().step));
  }
  return options.out;
}

void report(const Saved& saved, const std::string& what) {
  fmt::print("{}: {}, {}\n", saved.folder.string(), what, human_bytes(saved.bytes));
  if (!saved.trouble.empty()) fmt::print("warning: {}\n", saved.trouble);
}

int consolidate(const CkptReshardOptions& options) {
  if (!is_printing_rank()) return 0;
  const CheckpointReader source(resolve_checkpoint(options.path, options.step));
  const fs::path target = target_of(options, source);
  ConsolidateOptions how{.weights_only = options.weights_only, .storage = save_options_of({}).storage};
  if (!options.dtype.empty()) how.model_dtype = dtype_from_name(options.dtype);
  WorkProgress progress("consolidating");
  const Saved saved = consolidate_checkpoint(source, target, how, [&](double share) { progress.show(share); });
  report(saved, options.weights_only ? "consolidated, weights only" : "consolidated");
  return 0;
}

/// The run that wrote the checkpoint, in the layout of the words, whose dp is 1 if they leave it out.
Layout layout_of(const CheckpointReader& source, const std::string& words) {
  RunConfig config = parse_saved_run_file(source.state().run_file, "the checkpoint's run file");
  config.checkpoint.write = "site";  // whether this build can write together does not matter
  const std::vector<std::string> all = split(words, ',');
  const bool says_dp = std::any_of(all.begin(), all.end(), [](const std::string& word) { return word.starts_with("dp="); });
  return layout_from_words(config, says_dp ? words : "dp=1," + words, kMostRanks);
}

int reshard(const CkptReshardOptions& options) {
  if (options.out.empty() == !options.in_place)
    fail(ExitCode::usage, "give --out FOLDER to write a new folder, or --in-place to replace the checkpoint");
  if (!is_printing_rank()) return 0;
  const CheckpointReader source(resolve_checkpoint(options.path, options.step));
  const fs::path target = target_of(options, source);
  const Layout layout = layout_of(source, options.layout);
  const std::string model = describe_model(layout.config.model);
  const FileLayout files{layout.ranks, [&](int rank) { return shards_of_rank(layout.config, rank); }, model};
  WorkProgress progress("resharding");
  const Saved saved = reshard_checkpoint(source, target, files, save_options_of(layout.config.checkpoint).storage,
                                         [&](double share) { progress.show(share); });
  report(saved, fmt::format("per_rank, {}: {}", counted(layout.ranks, "rank"), layout.name));
  return 0;
}

CLI::Option* add_common(CLI::App& command, CkptReshardOptions& options) {
  command.add_option("path", options.path, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  add_step_option(command, options.step);
  auto* out = command.add_option("--out", options.out, "Write FOLDER/checkpoints/step_N instead of replacing the checkpoint")
                  ->type_name("FOLDER");
  command.add_flag("--overwrite", options.overwrite, "Replace the checkpoint of this step in --out, if there is one")->needs(out);
  return out;
}

}  // namespace

void add_ckpt_consolidate(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("consolidate", "Merge the shards of a checkpoint into one file of whole tensors");
  command->footer(
      "Writes the form \"consolidated\": one model.h5 in which each tensor is one plain dataset. Without --out it takes the\n"
      "checkpoint's place in its run once it is complete; let no job save there meanwhile. Training resumes from it bit for bit\n"
      "as from the original, in any layout, unless --weights-only left out the optimizer state. It runs on one process, needs\n"
      "no GPU, and memory for a few blocks, not for the model.\n\n"
      "Examples:\n"
      "  cohort ckpt consolidate runs/demo                                       the newest checkpoint, where it is\n"
      "  cohort ckpt consolidate runs/demo/checkpoints/step_00000400 --out kept  that one, as kept/checkpoints/step_00000400\n"
      "  cohort ckpt consolidate runs/demo --out small --weights-only --dtype bf16   to share: a sixth of the size");
  const auto options = std::make_shared<CkptReshardOptions>();
  add_common(*command, *options);
  command->add_flag("--weights-only", options->weights_only, "Leave out the optimizer state: for evaluation and export");
  command
      ->add_option("--dtype", options->dtype,
                   "Type of the weights: fp32, bf16 or fp16. With optimizer state, exact fp32 copies are kept as well")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->callback([&action, options] { action = [options] { return consolidate(*options); }; });
}

void add_ckpt_reshard(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("reshard", "Rewrite the shards of a checkpoint for another layout");
  command->footer(
      "Any layout loads any checkpoint as it is, but a rank may then read blocks of several files that it needs only partly;\n"
      "after resharding for its layout each rank reads one file, all of it. Writes the form \"per_rank\". The layout is\n"
      "keys of [parallel], as for `cohort prove --layout`; dp is 1 if it is left out, the others are the defaults of a run "
      "file.\n"
      "Model, batch and precision are those of the run file inside, and a layout that does not fit them is refused as in\n"
      "training. Runs on one process, needs no GPU, and memory for a few blocks, not for the model.\n\n"
      "Examples:\n"
      "  cohort ckpt reshard runs/demo --layout dp=2,tp=2,data=zero3 --out runs/four\n"
      "  cohort ckpt reshard runs/demo --layout dp=8,data=zero3,shard_ranks=4 --out runs/eight\n"
      "  cohort ckpt reshard runs/demo --layout pp=4 --in-place       let no job save there meanwhile");
  const auto options = std::make_shared<CkptReshardOptions>();
  auto* out = add_common(*command, *options);
  command->add_flag("--in-place", options->in_place, "Replace the checkpoint in its run once the new one is complete")
      ->excludes(out);
  command->add_option("--layout", options->layout, "Keys of [parallel], such as dp=2,tp=2,data=zero1")
      ->type_name("KEYS")
      ->required();
  command->callback([&action, options] { action = [options] { return reshard(*options); }; });
}

}  // namespace cohort
