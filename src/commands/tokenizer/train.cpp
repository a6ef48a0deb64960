// `cohort tokenizer train`: a byte-level BPE vocabulary from text, on any number of ranks.
#include <cstdio>
#include <filesystem>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "comm/consensus.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/open_world.hpp"
#include "commands/common/output_file.hpp"
#include "commands/common/work_progress.hpp"
#include "commands/tokenizer/tokenizer_commands.hpp"
#include "data/bpe/bpe_model.hpp"
#include "data/prepare/count_texts.hpp"
#include "observe/flight_recorder.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;
  std::string out;
  DocumentRules rules{.field = "text", .separator = {}};
  TokenizerLearning wanted;
  bool overwrite = false;
};

// Of all texts, on rank 0. Errors of one rank in its texts end the job at once: the others may be far from done.
std::vector<std::string> count(const TrainTokenizerOptions& options, Communicator& world, TokenizerLearner& learner) {
  const InputList inputs = InputList::unpack(made_by_rank_0(world, "looking for the texts", [&] {
    const InputList list = list_inputs(options.inputs, [&](const std::string& path) {
      std::error_code ignored;  // none if it is not there yet
      return std::filesystem::equivalent(path, options.out, ignored);
    });
    for (const std::string& note : list.notes) fmt::print("note: {}\n", note);
    return list.pack();
  }));
  WorkProgress progress(world.rank() == 0 ? "counting" : "");
  count_texts(inputs, plan_work(inputs, piece_bytes_for(inputs.bytes())), options.rules, learner, world.rank(), world.size(),
              [&](double share) { progress.show(share); });
  return gather_texts(world, world.rank() == 0 ? "" : learner.counts(), 0);
}

int train_tokenizer(const TrainTokenizerOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  std::unique_ptr<TokenizerLearner> learner;
  const std::filesystem::path out =
      made_by_rank_0(*world, "preparing", [&] { return output_file("--out", options.out, options.overwrite).string(); });
  fail_together(*world, "preparing", [&] { learner = find_tokenizer_kind("bpe")->learner(options.wanted); });
  const std::vector<std::string> counts = count(options, *world, *learner);
  fail_together(*world, "learning", [&] {
    if (world->rank() != 0) return;
    const FlightRecorder::LongCall learning("learning a vocabulary");  // the others wait
    for (const std::string& of_rank : counts) learner->merge_counts(of_rank);
    WorkProgress progress("learning merges");
    const std::unique_ptr<Tokenizer> tokenizer = learner->finish([&](double share) { progress.show(share); });
    write_file_atomically(out, to_tokenizer_json(*tokenizer->bpe()));
    fmt::print("{}: {}", options.out, counted(tokenizer->vocabulary_size(), "token"));
    if (tokenizer->vocabulary_size() < options.wanted.vocabulary)
      fmt::print(", fewer than the {} asked for: no pair that is left occurs twice", options.wanted.vocabulary);
    fmt::print("\nnext: cohort data prepare --input {} --out FILE.h5 --tokenizer {}\n", join(options.inputs, " "), options.out);
  });
  return 0;
}

}  // namespace

void add_tokenizer_train(CLI::App& tokenizer, Action& action) {
  auto* command = tokenizer.add_subcommand("train", "Learn a byte-level BPE vocabulary from text; with mpirun on many ranks");
  command->footer(
      "Writes tokenizer.json in the form of Hugging Face's tokenizers, whose BPE trainer finds the same merges in the same "
      "texts.\n"
      "The file is the same for any number of ranks.\n"
      "Examples:\n"
      "  cohort tokenizer train --input data/stories.txt --vocabulary 1024 --out data/own.json\n"
      "  mpirun -np 2 cohort tokenizer train --input data/stories.txt --input data/other.txt --vocabulary 2048 --out "
      "data/two.json");
  const auto options = std::make_shared<TrainTokenizerOptions>();
  command->add_option("--input", options->inputs, "Text files, folders and quoted patterns, as `cohort data prepare` takes them")
      ->type_name("PATH")
      ->required();
  command->add_option("--field", options->rules.field, "Field with the text in lines of JSON")->capture_default_str();
  command->add_option("--split-documents", options->rules.separator,
                      "Line that separates the documents of a text; '': blank lines [a text is a document]");
  command->add_option("--out", options->out, "tokenizer.json to write")->required();
  command->add_option("--vocabulary", options->wanted.vocabulary, "Tokens in all: 256 bytes, merges and special tokens")
      ->required()
      ->check(integer_from(256, 10'000'000));
  command->add_option("--pattern", options->wanted.pattern,
                      "How text is cut before merges: gpt-2 (the default), cl100k or a regular expression");
  command->add_option("--special-token", options->wanted.special, "A special token, as '<|endoftext|>' (may be repeated)")
      ->allow_extra_args(false);
  add_overwrite_option(*command, options->overwrite, "the file");
  command->callback([&action, options] { action = [options] { return train_tokenizer(*options); }; });
}

}  // namespace cohort
