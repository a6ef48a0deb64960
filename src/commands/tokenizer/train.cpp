// `cohort tokenizer train`: a byte-level BPE vocabulary from text, on any number of ranks.
#include <cstdio>

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
#include "data/bpe/bpe_trainer.hpp"
#include "runtime/runtime.hpp"

namespace cohort {
namespace {

constexpr std::size_t kPart = std::size_t{4} << 20;  // bytes of a text that one rank counts at a time

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;
  std::string out;
  TokenizerLearning wanted;
  bool overwrite = false;
};

// The parts of all texts go to the ranks in turns. They are cut by the texts alone, so that they are the same for any number of
// ranks.
void count_own_parts(const std::vector<std::string>& inputs, Communicator& world, TokenizerLearner& learner,
                     WorkProgress& progress) {
  Count part = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string text = read_file(inputs[i], "text");
    if (text.empty())
      fail(ExitCode::data, "the text '{}' is empty; leave it out, or check what should have written it", inputs[i]);
    for (std::size_t begin = 0; begin < text.size(); ++part) {
      const std::size_t end = cut_between_pieces(text, std::min(begin + kPart, text.size()));
      if (part % world.size() == world.rank()) learner.add(std::string_view(text).substr(begin, end - begin), inputs[i]);
      begin = end;
      progress.show((static_cast<double>(i) + static_cast<double>(begin) / static_cast<double>(text.size())) /
                    static_cast<double>(inputs.size()));
    }
  }
}

int train_tokenizer(const TrainTokenizerOptions& options) {
  Runtime runtime;
  const std::unique_ptr<Communicator> world = open_world();
  const TokenizerKind& kind = *find_tokenizer_kind("bpe");
  std::unique_ptr<TokenizerLearner> learner;
  std::filesystem::path out;
  fail_together(*world, "counting", [&] {
    if (world->rank() == 0) out = output_file("--out", options.out, options.overwrite);
    learner = kind.learner(options.wanted);
    WorkProgress progress(world->rank() == 0 ? "counting" : "");
    count_own_parts(options.inputs, *world, *learner, progress);
  });
  const std::vector<std::string> counts = gather_texts(*world, world->rank() == 0 ? "" : learner->counts(), 0);
  fail_together(*world, "learning", [&] {
    if (world->rank() != 0) return;
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
  command->add_option("--input", options->inputs, "Text files")->required();
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
