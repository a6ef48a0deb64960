// `cohort data prepare`: texts to a token file, on any number of ranks.
#include "data/prepare.hpp"

#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/work_progress.hpp"
#include "commands/data/data.hpp"
#include "observe/flight_recorder.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

// The counts are errors of one rank, which end the job at once: the others may be far from done.
void choose_tokenizer(Preparation& preparation, Communicator& world) {
  if (!preparation.learns()) {
    fail_together(world, "opening the tokenizer", [&] { preparation.open_tokenizer(); });
    return;
  }
  std::string tokenizer = made_by_rank_0(world, "looking for the tokenizer", [&] { return preparation.kept_tokenizer(); });
  if (tokenizer.empty()) {
    std::unique_ptr<TokenizerLearner> learner;
    {
      WorkProgress progress("counting");
      learner = preparation.count(world.rank(), world.size(), [&](double share) {
        if (world.rank() == 0) progress.show(share);
      });
    }
    const std::vector<std::string> counts = gather_texts(world, world.rank() == 0 ? "" : learner->counts(), 0);
    tokenizer = made_by_rank_0(world, "learning the vocabulary", [&] {
      const FlightRecorder::LongCall learning("learning a vocabulary");  // the others wait
      for (const std::string& of_rank : counts) learner->merge_counts(of_rank);
      WorkProgress progress("learning merges");
      return preparation.learn(*learner, [&](double share) { progress.show(share); });
    });
  }
  fail_together(world, "opening the tokenizer", [&] { preparation.use_tokenizer(tokenizer); });
}

void report(const PrepareOptions& options, const Prepared& prepared) {
  for (const std::string& note : prepared.notes) fmt::print("note: {}\n", note);
  fmt::print("{}: {} tokenizer, vocabulary of {}; {} tokens for training, the last {} for validation; {}\n", options.output,
             prepared.tokenizer, prepared.vocabulary_size, prepared.train, prepared.validation,
             counted(prepared.documents, "document"));
  if (prepared.counted) {
    fmt::print("conversations by the template {}: {} of the tokens count as targets ({:.1f} %)\n", options.conversations,
               *prepared.counted,
               100.0 * static_cast<double>(*prepared.counted) / static_cast<double>(prepared.train + prepared.validation));
  }
  if (options.deduplicate) fmt::print("{} left out\n", counted(prepared.duplicates, "duplicate document"));
  if (prepared.entropy) fmt::print("known floor of the loss: {:.5f} nats per token\n", prepared.entropy->exact);
}

int run_prepare(PrepareOptions options, bool overwrite) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  options.output = made_by_rank_0(*world, "preparing", [&] {
    check_prepare_options(options);
    return output_file("--out", options.output, overwrite).string();
  });
  InputList inputs;
  const std::string files = made_by_rank_0(*world, "looking for the texts", [&] {
    inputs = Preparation::find_inputs(options);
    return inputs.pack();
  });
  if (world->rank() != 0) inputs = InputList::unpack(files);
  std::optional<Preparation> made;
  fail_together(*world, "preparing", [&] { made.emplace(options, std::move(inputs)); });
  Preparation& preparation = *made;
  fail_together(*world, "preparing", [&] {
    if (world->rank() == 0) preparation.lock();
  });
  choose_tokenizer(preparation, *world);
  {
    WorkProgress progress("encoding");
    preparation.encode(world->rank(), world->size(), [&](double share) {
      if (world->rank() == 0) progress.show(share);
    });
  }
  world->barrier();  // all parts are there
  fail_together(*world, "writing the token file", [&] {
    if (world->rank() != 0) return;
    WorkProgress progress("writing");
    report(options, preparation.assemble([&](double share) { progress.show(share); }));
  });
  return 0;
}

std::string tokenizer_help() {
  std::string help;
  for (const TokenizerKind* kind : all_tokenizer_kinds()) help += fmt::format("{}: {}; ", kind->name, kind->help);
  return help;
}

std::string conversations_help() {
  std::string help = "Lines of JSON are conversations, of which only the answers count as targets; their text by this template: ";
  for (const ChatTemplate& chat : all_chat_templates()) help += fmt::format("{}: {}; ", chat.name, chat.help);
  return help.substr(0, help.size() - 2);
}

}  // namespace

void add_data_prepare(CLI::App& data, Action& action) {
  auto* prepare = data.add_subcommand("prepare", "Turn texts into a token file for training; with mpirun on many ranks");
  const auto options = std::make_shared<PrepareOptions>();
  prepare->footer(
      "The file is the same for any number of ranks. A preparation that was killed continues with the same command.\n"
      "Examples:\n"
      "  cohort data prepare --input data/stories.txt --out characters.h5 --tokenizer char\n"
      "  mpirun -np 2 cohort data prepare --input data/stories.txt --out bpe.h5 --tokenizer bpe --vocabulary 1000");
  prepare
      ->add_option("--input", options->inputs,
                   "Text files, folders and quoted patterns ('*.txt'), joined in this order; plain, gzip or zstd; in files named "
                   ".jsonl or .ndjson each line is a document")
      ->type_name("PATH")
      ->required();
  prepare->add_option("--out", options->output, "Token file to write (HDF5)")->type_name("FILE")->required();
  prepare
      ->add_option("--tokenizer", options->tokenizer,
                   tokenizer_help() +
                       "or a path: a token file, whose models can then read the new one, "
                       "tokenizer.json, or what else `cohort tokenizer show` reads")
      ->capture_default_str();
  prepare->add_option("--vocabulary", options->learning.vocabulary, "With --tokenizer bpe: tokens to learn")
      ->check(integer_from(256, 10'000'000));
  prepare->add_option("--pattern", options->learning.pattern, "With bpe or a rank file: gpt-2, cl100k or a regular expression");
  prepare->add_option("--special-token", options->learning.special, "With bpe or a rank file: a special token (may be repeated)")
      ->allow_extra_args(false);
  auto* field = prepare->add_option("--field", options->field, "Field with the text in lines of JSON")->capture_default_str();
  prepare->add_option("--conversations", options->conversations, conversations_help())->type_name("TEMPLATE")->excludes(field);
  prepare->add_option(
      "--split-documents", options->separator,
      "Line that separates the documents of a text, such as '<|endoftext|>'; '': blank lines [a text is a document]");
  prepare->add_option("--end-of-document", options->end_of_document,
                      "Special token of the tokenizer to put after each document, such as '<|endoftext|>'");
  prepare->add_flag("--dedup", options->deduplicate, "Leave out documents whose text was there before");
  prepare->add_option("--validation", options->validation, "Share of the tokens, taken from the end, for validation")
      ->capture_default_str();
  const auto overwrite = std::make_shared<bool>(false);
  add_overwrite_option(*prepare, *overwrite, "the token file");
  prepare->callback([&action, options, overwrite] { action = [=] { return run_prepare(*options, *overwrite); }; });
}

}  // namespace cohort
