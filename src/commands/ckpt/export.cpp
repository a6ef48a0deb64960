// `cohort ckpt export`: a checkpoint's weights as Hugging Face's transformers loads them, or as plain safetensors. Starts neither
// MPI nor Kokkos.
#include <memory>
#include <string>

#include "base/text.hpp"
#include "checkpoint/store/store.hpp"
#include "commands/commands.hpp"
#include "commands/common/step_option.hpp"
#include "interchange/exchange.hpp"
#include "interchange/safetensors_writer.hpp"
#include "runtime/failure_exit.hpp"

namespace cohort {
namespace {

struct CkptExportOptions {
  std::string checkpoint, folder;
  std::string dtype = "fp32";
  std::string shard_size = "5GB";
  std::string format = "hf";
  bool overwrite = false;
  std::optional<Count> step;
};

int run_export(const CkptExportOptions& options) {
  if (!is_printing_rank()) return 0;
  const bool hf = options.format == "hf", peft = options.format == "peft";
  const Exported exported = export_checkpoint({.checkpoint = resolve_checkpoint(options.checkpoint, options.step),
                                               .folder = options.folder,
                                               .format = hf     ? FolderFormat::hf
                                                         : peft ? FolderFormat::peft
                                                                : FolderFormat::safetensors,
                                               .dtype = dtype_from_name(options.dtype),
                                               .shard_bytes = parse_shard_size(options.shard_size),
                                               .overwrite = options.overwrite});
  fmt::print("{}: {} parameters of the {} in {}, as {}, to {}\n", exported.checkpoint.string(),
             human_count(static_cast<double>(exported.parameters)), exported.model_kind,
             counted(static_cast<Count>(exported.tensors), "tensor"), options.dtype, options.folder);
  for (const std::string& file : exported.files) fmt::print("  {}\n", file);
  if (hf) {
    fmt::print("Load it with transformers: AutoModelForCausalLM.from_pretrained(\"{}\")\n", options.folder);
    if (exported.tokenizer != "tokenizer.json")
      fmt::print("It has no tokenizer that transformers reads: give the model the token ids of `cohort data`.\n");
  } else if (peft) {
    fmt::print("Load it with peft: PeftModel.from_pretrained(MODEL, \"{}\"), with the model that the adapters were trained on\n",
               options.folder);
  } else {
    fmt::print("Load it with safetensors, or back into a run: cohort ckpt import {} --out RUN\n", options.folder);
  }
  return 0;
}

}  // namespace

void add_ckpt_export(CLI::App& ckpt, Action& action) {
  auto* command = ckpt.add_subcommand("export", "Write the weights for Hugging Face's transformers, or as plain safetensors");
  command->footer(
      "Examples:\n"
      "  cohort ckpt export runs/demo --out hf/demo                     the newest checkpoint of a run\n"
      "  cohort ckpt export runs/demo --out hf/demo16 --dtype bf16      16 bits per weight\n"
      "  cohort ckpt export runs/demo --out hf/parts --shard-size 1MB   several files and an index, as for large models\n"
      "  cohort ckpt export runs/demo --out plain --format safetensors  under Cohort's own names, with the run file\n"
      "docs/finetuning.md exports adapters (--format peft).");
  const auto options = std::make_shared<CkptExportOptions>();
  command->add_option("checkpoint", options->checkpoint, "A checkpoint's folder, or a run's: its newest checkpoint")->required();
  add_step_option(*command, options->step);
  command->add_option("--out", options->folder, "Folder to write")->type_name("FOLDER")->required();
  command->add_option("--dtype", options->dtype, "Type of the weights")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_option("--shard-size", options->shard_size, "Largest file, for example 5GB or 512MiB")->capture_default_str();
  command
      ->add_option(
          "--format", options->format,
          "hf: names, layouts and config.json of transformers, with adapters folded into the weights; peft: the adapters alone; "
          "safetensors: Cohort's own names")
      ->check(CLI::IsMember({"hf", "peft", "safetensors"}))
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace an earlier export in the folder");
  command->callback([&action, options] { action = [options] { return run_export(*options); }; });
}

}  // namespace cohort
