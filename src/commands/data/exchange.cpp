// `cohort data import` and `export`: token ids in files of other programs. One process, no MPI.
#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/work_progress.hpp"
#include "commands/data/data.hpp"
#include "commands/tokenizer/tokenizer_commands.hpp"
#include "data/foreign/import_tokens.hpp"

namespace cohort {
namespace {

struct ImportCommand {
  ImportOptions options;
  TokenizerChoice tokenizer;
  bool overwrite = false;
};

int run_import(const ImportCommand& command) {
  ImportOptions options = command.options;
  options.output = output_file("--out", options.output, command.overwrite).string();
  const std::unique_ptr<Tokenizer> tokenizer = command.tokenizer.open();
  WorkProgress progress("importing");
  const Imported imported = import_tokens(options, *tokenizer, [&](double share) { progress.show(share); });
  fmt::print("{}: {} of {}; {} tokenizer, vocabulary of {}; {} tokens for training, {} for validation; {}\n", options.output,
             join(imported.formats),
             counted(static_cast<Count>(options.inputs.size() + options.validation_inputs.size()), "file"), tokenizer->kind(),
             tokenizer->vocabulary_size(), imported.train, imported.validation, counted(imported.documents, "document"));
  return 0;
}

struct ExportCommand {
  std::string file;
  std::string format;
  std::string folder;
  bool overwrite = false;
};

int run_export(const ExportCommand& command) {
  std::vector<std::filesystem::path> paths;
  for (const std::filesystem::path& path : exported_files(command.folder))
    paths.push_back(output_file("--out", path, command.overwrite));
  const TokenFile file(command.file);
  WorkProgress progress("exporting");
  export_tokens(file, command.format, paths, [&](double share) { progress.show(share); });
  fmt::print("{}: train.bin with {}, val.bin with {}\n", command.folder, counted(file.tokens(Split::train), "token"),
             file.tokens(Split::validation));
  if (!file.chat_template().empty())
    fmt::print("note: which tokens count as targets is left out: the format has no place for it\n");
  return 0;
}

}  // namespace

void add_data_import(CLI::App& data, Action& action) {
  auto* command = data.add_subcommand("import", "Token ids of nanoGPT, llm.c, Megatron-LM or NumPy to a token file");
  command->footer(
      "Examples:\n"
      "  cohort data export data/stories.h5 --format llmc --out exported\n"
      "  cohort data import --input exported/train.bin --validation-input exported/val.bin --tokenizer data/stories.h5 --out "
      "imported.h5");
  const auto chosen = std::make_shared<ImportCommand>();
  command
      ->add_option("--input", chosen->options.inputs,
                   "Files with ids, joined in this order: .bin of llm.c or nanoGPT, .bin or .idx of Megatron-LM, .npy")
      ->type_name("FILE")
      ->required();
  command->add_option("--validation-input", chosen->options.validation_inputs, "Files whose ids are the validation split")
      ->type_name("FILE");
  command->add_option("--out", chosen->options.output, "Token file to write (HDF5)")->type_name("FILE")->required();
  command
      ->add_option("--format", chosen->options.format,
                   "nanogpt (uint16 and nothing else, which no file says of itself), llmc, megatron, npy, or auto")
      ->capture_default_str();
  add_tokenizer_choice(*command, chosen->tokenizer);
  command->add_option(
      "--end-of-document", chosen->options.end_of_document,
      "Special token that ends documents in the ids, such as '<|endoftext|>' [where a .idx says, else a file is a document]");
  command
      ->add_option("--validation", chosen->options.validation,
                   "Without --validation-input: share of the tokens, taken from the end, for validation")
      ->capture_default_str();
  add_overwrite_option(*command, chosen->overwrite, "the token file");
  command->callback([&action, chosen] { action = [chosen] { return run_import(*chosen); }; });
}

void add_data_export(CLI::App& data, Action& action) {
  auto* command = data.add_subcommand("export", "The tokens of a token file for nanoGPT or llm.c");
  const auto chosen = std::make_shared<ExportCommand>();
  command->add_option("file", chosen->file, "Token file")->required();
  command->add_option("--format", chosen->format, "nanogpt (uint16), or llmc (uint16, uint32 for more than 65,536 ids)")
      ->required();
  command->add_option("--out", chosen->folder, "Folder to write train.bin and val.bin into")->type_name("FOLDER")->required();
  add_overwrite_option(*command, chosen->overwrite, "the files");
  command->callback([&action, chosen] { action = [chosen] { return run_export(*chosen); }; });
}

}  // namespace cohort
